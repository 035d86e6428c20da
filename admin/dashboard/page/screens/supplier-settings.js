/** The settings of a supplier in words. The configuration file or the API sets them. */

import { loaded, useRead } from '../components.js'
import { absent, integer, percent } from '../format.js'
import { html } from '../html.js'
import { call } from '../session.js'
import { changesMade } from './supplier-form.js'

/** @param {any} opd */
function opdWords(opd) {
  if (opd === undefined || opd === null) return ['OPD is off: prices are not changed.']
  const enabled =
    opd.enabled === 'shadow'
      ? 'OPD is in shadow: prices are decided and recorded, every bid leaves at its own price.'
      : opd.enabled
        ? `OPD prices ${opd.share < 1 ? `${percent(opd.share)} of the auctions` : 'every auction'}.`
        : 'OPD is off: prices are not changed.'
  const goal =
    opd.mode === 'margin'
      ? `Mode margin: reach a margin of ${percent(opd.targetMargin)} of revenue with as many wins as possible.`
      : 'Mode revenue: the largest margin while wins and spend are kept.'
  const excluded = Object.entries(opd.exclude ?? {}).flatMap(([what, names]) =>
    /** @type {string[]} */ (names).length === 0
      ? []
      : [`${what}: ${/** @type {string[]} */ (names).join(', ')}`],
  )
  return [
    enabled,
    goal,
    `At least ${percent(opd.minWinRate)} of the wins and ${percent(opd.minSpend)} of the spend are kept, compared with the holdout.`,
    `No price falls below ${percent(opd.minFactor)} of the inbound price.`,
    `${percent(opd.holdout)} of the auctions are the holdout, ${percent(opd.explore)} explore a random price.`,
    ...(opd.clientFee > 0
      ? [`${percent(opd.clientFee)} of the price is deducted before (client fee).`]
      : []),
    opd.deals ? 'Bids with a deal are priced.' : 'Bids with a deal stay unchanged.',
    ...(excluded.length > 0 ? [`Bids that stay unchanged: ${excluded.join('; ')}.`] : []),
  ]
}

/** @param {{ ssp: string }} props */
export function Settings({ ssp }) {
  const found = useRead(async () => {
    const { suppliers } = await call('/api/svc/configuration/')
    return suppliers.find((/** @type {{ id: string }} */ { id }) => id === ssp) ?? {}
  }, [ssp, changesMade.value])
  return html`<section class="sheet"><h2>Settings</h2>
    ${loaded(
      found,
      (
        settings,
      ) => html`<ul>${opdWords(settings.opd).map((line) => html`<li key=${line}>${line}</li>`)}
      <li>Requests go to ${settings.endpoints?.length ?? absent} ${settings.endpoints?.length === 1 ? 'endpoint' : 'endpoints'}, and may take ${integer(settings.timeout)} ms, or less if tmax of the request is shorter.</li>
      ${settings.canary && html`<li>${percent(settings.canary.share)} of the auctions go to the canary, ${settings.canary.endpoints.length} ${settings.canary.endpoints.length === 1 ? 'endpoint' : 'endpoints'}.</li>`}
      ${settings.mirror && html`<li>${percent(settings.mirror.share)} of the requests are copied to the mirror.</li>`}
      <li>At most ${settings.maxInFlight === 'auto' ? 'as many requests at once as the supplier answers in time (adaptive)' : `${integer(settings.maxInFlight)} requests at once`}.</li>
      <li>Win notices: ${settings.notices}. A cleared price above ${settings.clearing?.maxOver} times the outbound price is refused.</li></ul>
      <p class="soft"><a href="#/configuration">All of it</a></p>`,
    )}</section>`
}
