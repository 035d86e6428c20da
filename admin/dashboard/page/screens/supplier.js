/** One supplier: state, history, publishers and domains, switches, settings. */

import { Figure } from '../components.js'
import {
  absent,
  duration,
  integer,
  isolated,
  money,
  percent,
  plain,
  rate,
  sentence,
} from '../format.js'
import { html } from '../html.js'
import { route } from '../route.js'
import { currency, detailOf, integration, live, seesAll } from '../state.js'
import { Funnel } from './funnel.js'
import { HoldButton } from './holds.js'
import { MinutesOf } from './minutes.js'
import { failedShare, Health, knownKept, refusedShare, shareOf } from './supplier-common.js'
import { Curve } from './supplier-curve.js'
import { Canary, Counts, Factors, Guards } from './supplier-figures.js'
import { SupplierForm } from './supplier-form.js'
import { History } from './supplier-history.js'
import { SeatsAndCenters } from './supplier-seats.js'
import { Settings } from './supplier-settings.js'
import { WhatIfOf } from './supplier-what-if.js'

/** @import { LiveIntegration } from '../../../fleet/live-schema.ts' */

const unknown = 'unknown: too few wins, or no holdout to compare with'

/** A kept rate with its interval, its floor, and what it means in wins or in money.
 * @param {{ name: string, supplier: LiveIntegration, what: 'kept' | 'keptSpend' }} props */
function KeptFigure({ name, supplier: { opd, modes }, what }) {
  const kept = knownKept(modes[0]?.[what])
  const { wins, spend } = modes[0]?.missing ?? { wins: 0, spend: 0 }
  const [missing, text] =
    what === 'kept'
      ? [wins, `${integer(Math.abs(wins))} wins`]
      : [spend, `${money(Math.abs(spend), currency.value)} of spend`]
  const note =
    kept &&
    html`${percent(kept.lower)} to ${percent(kept.upper)}, floor ${percent(kept.floor)}; about ${text} ${missing > 0 ? 'fewer' : 'more'} than at full price`
  return html`<${Figure} name=${name} value=${percent(kept?.at)} level=${opd?.state === 'on' ? kept?.level : ''} note=${note ?? unknown} />`
}

const refusalWords = Object.entries({
  overload: 'overload',
  qps: 'over the allotment',
  inactive: 'inactive',
  unreadable: 'unreadable',
  refused: 'not allowed',
})

/** Why bidweir refused requests of the last minutes itself. @param {LiveIntegration} supplier */
const refusals = ({ requests, total }) =>
  refusalWords
    .flatMap(([name, words]) =>
      (requests[name] ?? 0) === 0 ? [] : [`${percent((requests[name] ?? 0) / total)} ${words}`],
    )
    .join(', ')

/** No bid of it is priced. @param {LiveIntegration} supplier */
const off = ({ opd }) => opd === null || opd.state === 'off' || opd.state === 'invalid'

export function Supplier() {
  const id = route.value.rest[0] ?? ''
  const listed = integration(id)
  if (listed === undefined)
    return html`<h1>No such supplier</h1><p>“${id}” does not exist, or belongs to another account. <a href="#/">All suppliers</a></p>`
  const supplier = detailOf(id)
  if (supplier === null) return html`<h1>${listed.name}</h1><p class="soft">Loading…</p>`
  const { health, held } = supplier
  const [mode] = supplier.modes
  const uplift = knownKept(mode?.kept) && mode?.uplift
  const share = (/** @type {string[]} */ ...outcomes) => percent(shareOf([supplier], ...outcomes))
  return html`<div class="row"><h1><bdi>${supplier.name}</bdi></h1>
      <${Health} supplier=${supplier} />
      <span class="soft">${id}${supplier.account === null ? '' : `, account ${isolated(supplier.account)}`}</span>
      ${held !== 'no' && html`<span class="tag">on hold${held === 'all' && ' (all integrations)'}</span>`}
      ${held !== 'all' && html`<${HoldButton} ssp=${id} name=${supplier.name} held=${held === 'own'} short />`}
    </div>
    ${held === 'all' && seesAll.value && html`<p class="soft">All integrations are on hold: release them on <a href="#/suppliers">Suppliers</a>.</p>`}
    ${
      health.reasons.length > 0 &&
      health.level !== 'none' &&
      html`<ul class=${`box ${health.level}`}>${health.reasons.map((reason) => html`<li key=${reason.text}>${sentence(reason.text)}${reason.fix && html` <small>${reason.fix}</small>`}</li>`)}</ul>`
    }
    <${Funnel} ssp=${id} />
    <section class="sheet" aria-label="Now">
      <dl class="figures">
        <${Figure} name="Requests / s" value=${supplier.total === 0 ? '0' : rate(supplier.rate)} note=${live.value?.scope} />
        <${Figure} name="No bid" value=${share('no_bid')} />
        <${Figure} name="Failed" value=${percent(failedShare([supplier]))}
          note=${supplier.sent > 0 && `${share('timeout')} time-outs, ${share('upstream_error')} errors`} />
        <${Figure} name="Refused" value=${percent(refusedShare([supplier]))} note=${refusals(supplier)} />
        <${Figure} name="p50 / p99" value=${supplier.p50 === null ? absent : `${duration(supplier.p50)} / ${duration(supplier.p99)}`} />
        <${KeptFigure} name="Kept wins" supplier=${supplier} what="kept" />
        <${KeptFigure} name="Kept spend" supplier=${supplier} what="keptSpend" />
        <${Figure} name="Uplift" value=${money(uplift?.at, currency.value)}
          note=${uplift ? `for 1,000 bids; ${plain(uplift.lower)} to ${plain(uplift.upper)}` : unknown} />
      </dl>
    </section>
    <${MinutesOf} ssp=${id} />
    <${History} ssp=${id} />
    <div class="tiles">
      <${SeatsAndCenters} ssp=${id} />
      <${Settings} ssp=${id} />
      <${SupplierForm} ssp=${id} />
      <${Canary} supplier=${supplier} />
      <${Guards} supplier=${supplier} />
      <${Factors} supplier=${supplier} />
      <${Curve} supplier=${supplier} />
      ${off(supplier) || html`<${WhatIfOf} supplier=${supplier} />`}
      <${Counts} supplier=${supplier} />
    </div>`
}
