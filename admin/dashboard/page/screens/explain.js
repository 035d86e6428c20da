/** Why a bid had its price: by its context or its bid id. */
import { useState } from 'preact/hooks'
import { loaded, Term, useRead } from '../components.js'
import { absent, percent, plain, sentence, time } from '../format.js'
import { withFields, withValue } from '../forms.js'
import { html } from '../html.js'
import { route, setQuery } from '../route.js'
import { call } from '../session.js'

/** @import { Decision } from '../../../prices/decisions.ts' */

/** What was pasted: a notice or its parameters, a context, or a bid id. @param {string} text */
function pasted(text) {
  const trimmed = text.trim()
  const query = new URLSearchParams(trimmed.slice(trimmed.indexOf('?') + 1))
  const [context, bid] = [query.get('svc_opd'), query.get('bid_id')]
  if (context !== null || bid !== null)
    return { context: context ?? '', bid: bid ?? '', ssp: query.get('ssp') ?? '' }
  // contexts are long and have no other characters
  return /^[\w-]{60,512}$/.test(trimmed)
    ? { context: trimmed, bid: '', ssp: '' }
    : { context: '', bid: trimmed, ssp: '' }
}

/** @param {Decision} decision @returns {[name: string, value: import('../html.js').Shown, help?: string][]} */
const rows = (decision) => [
  [
    'Price in',
    `${decision.in_ba} ${decision.currency} CPM`,
    'The price of the supplier, less the client fee.',
  ],
  ['Price out', `${decision.out_ba} ${decision.currency} CPM`, 'The price that left.'],
  ['Factor', plain(decision.factor)],
  [
    'Floor',
    decision.floor === null ? absent : `${decision.floor} ${decision.currency} CPM`,
    'The floor of the auction.',
  ],
  ['Arm', decision.arm],
  ['Propensity', percent(decision.propensity)],
  [
    'Chance of winning',
    `${percent(decision.win_out)} at the price out, ${percent(decision.win_in)} at the price in`,
  ],
  ['Theta', plain(decision.theta)],
  ['Lambda', decision.lambda === null ? absent : `${plain(decision.lambda)} CPM`],
  ['Guard', decision.guard ?? absent],
  ['Mode', decision.mode, 'The objective of the integration.'],
  ['Publisher', decision.publisher ?? absent, 'The publisher of the request.'],
  ['Domain', decision.domain ?? absent, 'The site domain of the request.'],
  ['Seat', decision.seat ?? absent],
  ['Decided', time(decision.decided_at), 'When the bid was priced.'],
  ['Model version', decision.model_version, 'Rises with each snapshot of the model.'],
  ['Late', decision.late ? 'yes' : 'no', 'A win now would come after the attribution window.'],
]

/** @param {Decision} decision */
const decision = (
  decision,
) => html`<section class="sheet" aria-label="Decision"><h2>${decision.ssp}, bid ${decision.bid_id}</h2>
    <p class="lead">${sentence(decision.reason)}</p>
    <p>${decision.priced ? 'The price out was sent.' : 'The bid left at its own price.'} <a href=${`#/supplier/${encodeURIComponent(decision.ssp)}`}>Supplier ${decision.ssp}</a></p>
    <table aria-label="Details"><tbody>${rows(decision).map(
      ([name, value, help]) =>
        html`<tr key=${name}><th scope="row"><${Term} name=${name} text=${help} /></th><td>${value}</td></tr>`,
    )}</tbody></table></section>`

export function Explain() {
  const { query } = route.value
  const [context, bid] = [query.get('context') ?? '', query.get('bid') ?? '']
  const ssp = query.get('ssp') ?? ''
  const [text, setText] = useState(context === '' ? bid : '')
  const found = useRead(async () => {
    if (context === '' && bid === '') return []
    const parameters = new URLSearchParams({ bid_id: bid })
    if (context === '' && ssp !== '') parameters.set('ssp', ssp)
    return call(`/api/svc/decisions/${encodeURIComponent(context)}?${parameters}`)
  }, [context, bid, ssp])
  const parsed = pasted(text)
  const submit = withFields((field) =>
    setQuery({ ...parsed, bid: parsed.bid || field('bid').trim() }),
  )
  return html`<h1>Explain a bid</h1>
    <form class="sheet grid" onSubmit=${submit}>
      <label>Context, bid id, or the whole win notice
        <textarea name="text" rows="3" required value=${text} onInput=${withValue(setText)}></textarea></label>
      ${
        parsed.context !== '' &&
        parsed.bid === '' &&
        html`<label>Bid id: a context can only be read with it
        <input name="bid" required defaultValue=${bid} /></label>`
      }
      <div class="row"><button type="submit" class="primary">Explain</button>
        <span class="soft">A bid id alone finds the latest decision in the bid log. A context holds its own decision.</span></div>
    </form>
    ${loaded(found, decision, 'The answer appears here.')}`
}
