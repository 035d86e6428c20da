/** One supplier: state, history, publishers and domains, switches, settings. */
import { duration, money, percent, plain, rate } from '../format.js'
import { html } from '../html.js'
import { Figure, Level } from '../parts.js'
import { route } from '../route.js'
import { currency, integration, live, seesAll } from '../state.js'
import { HoldButton } from './hold.js'
import { keptNote, knownKept } from './kept.js'
import { Curve } from './supplier-curve.js'
import { Counts, Factors, Guards } from './supplier-figures.js'
import { History } from './supplier-history.js'
import { Settings } from './supplier-settings.js'
import { Switches } from './supplier-switches.js'
import { shareOf, totalOf } from './suppliers.js'

export function Supplier() {
  const id = route.value.rest[0] ?? ''
  const own = integration(id)
  if (own === undefined)
    return html`<h1>No such supplier</h1><p>“${id}” does not exist, or belongs to another account. <a href="#/">All suppliers</a></p>`
  const [mode] = own.modes
  const measured = own.opd?.state === 'on'
  const [kept, keptSpend] = [knownKept(mode?.kept), knownKept(mode?.keptSpend)]
  const now = /** @type {import('../../../fleet/live.ts').LiveSnapshot} */ (live.value)
  return html`<div class="row"><h1>${own.name}</h1>
      <${Level} level=${own.health.level} label=${own.health.level === 'none' ? 'No requests' : undefined} />
      <span class="soft">${id}${own.account === null ? '' : `, account ${own.account}`}</span>
      ${own.held === 'no' ? null : html`<span class="tag">on hold${own.held === 'all' && ' (all integrations)'}</span>`}
      ${own.held !== 'all' && html`<${HoldButton} ssp=${id} name=${own.name} held=${own.held === 'own'} />`}
    </div>
    ${own.held === 'all' && seesAll.value && html`<p class="soft">All integrations are on hold: release them on <a href="#/suppliers">Suppliers</a>.</p>`}
    ${
      own.health.reasons.length > 0 &&
      own.health.level !== 'none' &&
      html`<ul class=${`box ${own.health.level}`}>${own.health.reasons.map((reason) => html`<li key=${reason}>${reason}</li>`)}</ul>`
    }
    <section class="sheet" aria-label="Now">
      <dl class="figures">
        <${Figure} name="Requests / s" value=${totalOf(own) === 0 ? '0' : rate(own.rate)} note=${now.scope} />
        <${Figure} name="No bid" value=${percent(shareOf(own, 'no_bid'))} />
        <${Figure} name="Failed" value=${percent(shareOf(own, 'timeout', 'upstream_error'))}
          note=${`${percent(shareOf(own, 'timeout'))} time-outs, ${percent(shareOf(own, 'upstream_error'))} errors`} />
        <${Figure} name="p50 / p99" value=${`${duration(own.p50)} / ${duration(own.p99)}`} />
        <${Figure} name="Kept wins" value=${percent(kept?.at)} level=${measured ? kept?.level : ''} note=${keptNote(mode, 'kept')} />
        <${Figure} name="Kept spend" value=${percent(keptSpend?.at)} level=${measured ? keptSpend?.level : ''} note=${keptNote(mode, 'keptSpend')} />
        <${Figure} name="Uplift" value=${money(kept && mode?.uplift?.at, currency.value)}
          note=${kept && mode?.uplift ? `for 1,000 bids; ${plain(mode.uplift.lower)} to ${plain(mode.uplift.upper)}` : 'unknown: too few wins, or no holdout to compare with'} />
      </dl>
    </section>
    <${History} ssp=${id} />
    <div class="columns">
      <${Switches} ssp=${id} />
      <${Settings} ssp=${id} />
      <${Guards} of=${own} />
      <${Factors} of=${own} />
      <${Curve} of=${own} />
      <${Counts} of=${own} />
    </div>`
}
