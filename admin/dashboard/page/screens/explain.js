/** Why a bid had its price: by its context or its bid id. */
import { useState } from 'preact/hooks'
import { absent, percent, plain, time } from '../format.js'
import { html } from '../html.js'
import { Loaded, Term, useRead } from '../parts.js'
import { route, setQuery } from '../route.js'
import { call } from '../session.js'

/**
 * @typedef {object} Decision
 * @property {string} bid_id
 * @property {string} ssp
 * @property {string} mode
 * @property {string} decided_at
 * @property {boolean} late
 * @property {string} arm
 * @property {string} reason
 * @property {boolean} priced
 * @property {string} in_ba
 * @property {string} out_ba
 * @property {string} currency
 * @property {number | null} floor
 * @property {number} factor
 * @property {number} propensity
 * @property {number | null} win_in
 * @property {number | null} win_out
 * @property {number | null} theta
 * @property {number | null} lambda
 * @property {string | null} guard
 * @property {number} model_version
 * @property {string | null} publisher
 * @property {string | null} domain
 * @property {string | null} seat
 */

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

const chance = (/** @type {number | null} */ value) => (value === null ? absent : percent(value))

/** @param {Decision} of @returns {[name: string, value: import('../html.js').Shown, help?: string][]} */
const rows = (of) => [
  ['Price in', `${of.in_ba} ${of.currency} CPM`, 'The price of the supplier, less the client fee.'],
  ['Price out', `${of.out_ba} ${of.currency} CPM`, 'The price that left.'],
  ['Factor', plain(of.factor)],
  [
    'Floor',
    of.floor === null ? absent : `${of.floor} ${of.currency} CPM`,
    'The floor of the auction.',
  ],
  ['Arm', of.arm],
  ['Propensity', percent(of.propensity)],
  [
    'Chance of winning',
    `${chance(of.win_out)} at the price out, ${chance(of.win_in)} at the price in`,
  ],
  ['Theta', plain(of.theta)],
  ['Lambda', of.lambda === null ? absent : `${plain(of.lambda)} CPM`],
  ['Guard', of.guard ?? absent],
  ['Mode', of.mode, 'The objective of the integration.'],
  ['Publisher', of.publisher ?? absent, 'The publisher of the request.'],
  ['Domain', of.domain ?? absent, 'The site domain of the request.'],
  ['Seat', of.seat ?? absent],
  ['Decided', time(of.decided_at), 'When the bid was priced.'],
  ['Model version', of.model_version, 'Rises with each snapshot of the model.'],
  ['Late', of.late ? 'yes' : 'no', 'A win now would come after the attribution window.'],
]

export function Explain() {
  const { query } = route.value
  const [context, bid] = [query.get('context') ?? '', query.get('bid') ?? '']
  const ssp = query.get('ssp') ?? ''
  const [text, setText] = useState(context === '' ? bid : '')
  const found = useRead(async () => {
    if (context === '' && bid === '') return []
    const named = new URLSearchParams({ bid_id: bid, ...(ssp === '' ? {} : { ssp }) })
    if (context === '') return call(`/api/svc/decisions/?${named}`)
    return call(
      `/api/svc/decisions/${encodeURIComponent(context)}?${new URLSearchParams({ bid_id: bid })}`,
    )
  }, [context, bid, ssp])
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault()
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target))
    const next = pasted(text)
    setQuery({ ...next, bid: next.bid || String(form.get('bid') ?? '').trim() })
  }
  const parsed = pasted(text)
  return html`<h1>Explain a bid</h1>
    <form class="sheet grid" onSubmit=${submit}>
      <label>Context, bid id, or the whole win notice
        <textarea name="text" rows="3" required value=${text} onInput=${(
          /** @type {Event} */ event,
        ) => setText(/** @type {HTMLTextAreaElement} */ (event.target).value)}></textarea></label>
      ${
        parsed.context !== '' &&
        parsed.bid === '' &&
        html`<label>Bid id: a context can only be read with it
        <input name="bid" required defaultValue=${bid} /></label>`
      }
      <div class="row"><button type="submit" class="primary">Explain</button>
        <span class="soft">A bid id alone finds the latest decision in the bid log. A context holds its own decision.</span></div>
    </form>
    <${Loaded} of=${found} empty="The answer appears here.">${(/** @type {Decision} */ of) => html`
      <section class="sheet" aria-label="Decision"><h2>${of.ssp}, bid ${of.bid_id}</h2>
        <p class="lead">${of.reason.charAt(0).toUpperCase()}${of.reason.slice(1)}.</p>
        <p>${of.priced ? 'The price out was sent.' : 'The bid left at its own price.'} <a href=${`#/supplier/${encodeURIComponent(of.ssp)}`}>Supplier ${of.ssp}</a></p>
        <table aria-label="Details"><tbody>${rows(of).map(
          ([name, value, help]) =>
            html`<tr key=${name}><th scope="row"><${Term} name=${name} text=${help} /></th><td>${value}</td></tr>`,
        )}</tbody></table></section>`}<//>`
}
