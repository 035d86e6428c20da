/** What other settings would have done last week, by replay of the decision log. */
import { useState } from 'preact/hooks'
import { loaded, table, text } from '../components.js'
import { absent, integer, money, percent, plain, time } from '../format.js'
import { withFields } from '../forms.js'
import { html } from '../html.js'
import { ApiError, call } from '../session.js'

/** @import { LiveIntegration } from '../../../fleet/live-schema.ts' */
/** @import { WhatIf } from '../../../console/what-if.ts' */
/** @typedef {NonNullable<WhatIf['now']>} Outcome */
/** @typedef {Outcome['margin']} Figure */

/** @type {[name: keyof Outcome['settings'], label: string][]} */
const fields = [
  ['min_factor', 'minFactor'],
  ['min_win_rate', 'Floor of kept wins'],
  ['min_spend', 'Floor of kept spend'],
  ['share', 'Share of auctions'],
]

/** An estimate with its interval, or the word unknown with what the model expects. @param {Figure | undefined} estimate @param {(value: number | null) => string} format */
function figure(estimate, format) {
  if (estimate === undefined) return absent
  return estimate.value === null
    ? html`unknown<small>the model expects ${format(estimate.expected)}</small>`
    : html`<strong>${format(estimate.value)}</strong><small>${format(estimate.low)} to ${format(estimate.high)}</small>`
}

/** @param {{ found: WhatIf }} props */
function Result({ found }) {
  const { now, tried, bids, wins, from, to, cut, currency } = found
  if (now === null || tried === null)
    return html`<p>Unknown: the decision log of this node has no bid of the supplier in the last seven days.</p>`
  const amount = (/** @type {number | null} */ value) => money(value, currency)
  /** @type {[name: string, (outcome: Outcome) => import('../html.js').Shown][]} */
  const rows = [
    ...fields.map(
      ([name, label]) =>
        /** @type {[string, (outcome: Outcome) => string]} */ ([
          label,
          ({ settings }) => percent(settings[name]),
        ]),
    ),
    ['Margin of all bids', ({ margin }) => figure(margin, amount)],
    ['Kept wins', ({ kept_wins }) => figure(kept_wins, percent)],
    ['Kept spend', ({ kept_spend }) => figure(kept_spend, percent)],
    ['Mean factor, by the model', ({ mean_factor }) => plain(mean_factor)],
  ]
  const columns = [
    text('Setting or figure', (/** @type {typeof rows[number]} */ [name]) => name),
    text('as it is now', (/** @type {typeof rows[number]} */ [, shownOf]) => shownOf(now)),
    text('as you ask', (/** @type {typeof rows[number]} */ [, shownOf]) => shownOf(tried)),
  ]
  const why = [...new Set([...now.why, ...tried.why])]
  return html`${table({ label: 'What if', rows, columns, keyOf: ([name]) => name })}
    <p class="soft">${integer(bids)} bids and ${integer(wins)} wins of the node that answered, ${from !== null && time(from)} to ${to !== null && time(to)}${cut && '; the limit was reached, later bids were not read'}.
      Ranges are 95% intervals from bids with random prices.</p>
    ${why.length > 0 && html`<p class="soft">Not verified, or in part: ${why.join('; ')}.</p>`}`
}

/** @param {{ supplier: LiveIntegration }} props */
export function WhatIfOf({ supplier }) {
  const [state, setState] = useState(
    /** @type {{ value: WhatIf | { unknown: string } | null, fault: string, busy: boolean }} */ ({
      value: null,
      fault: '',
      busy: false,
    }),
  )
  const ask = async (/** @type {(name: string) => string} */ field) => {
    const query = new URLSearchParams({ ssp: supplier.ssp })
    for (const [name] of fields) {
      const value = field(name).trim()
      if (value !== '') query.set(name, String(Number((Number(value) / 100).toFixed(6))))
    }
    setState({ value: null, fault: '', busy: true })
    try {
      setState({ value: await call(`/api/svc/whatif/?${query}`), fault: '', busy: false })
    } catch (error) {
      const { message } = /** @type {Error} */ (error)
      const isAbsent = error instanceof ApiError && error.status === 404
      setState({
        value: isAbsent ? { unknown: message } : null,
        fault: isAbsent ? '' : message,
        busy: false,
      })
    }
  }
  const submit = withFields((field) => void ask(field))
  return html`<section class="sheet" aria-label="What if"><h2>What if, last week</h2>
    <p class="soft">Replays the bids of the last seven days with other settings. Nothing is changed.</p>
    <form onSubmit=${submit}><div class="fields">${fields.map(
      ([name, label]) =>
        html`<label key=${name}>${label}, % <input name=${name} type="number" min="0" max="100" step="any" placeholder="as it is" /></label>`,
    )}</div>
    <p><button type="submit" disabled=${state.busy} aria-busy=${state.busy}>${state.busy ? 'Replaying…' : 'Replay'}</button></p></form>
    ${
      !state.busy &&
      (state.value !== null || state.fault !== '') &&
      loaded(
        { ...state, again: () => setState({ value: null, fault: '', busy: false }) },
        (found) =>
          'unknown' in found
            ? html`<p>Unknown: ${found.unknown}. Set opd.decisionLog, so that bids can be replayed.</p>`
            : html`<${Result} found=${found} />`,
      )
    }
  </section>`
}
