/** The hold of one integration or of all. */
import { ask } from '../actions.js'
import { html } from '../html.js'
import { call } from '../session.js'
import { may, readLive } from '../state.js'

/** @param {string} ssp @param {boolean} hold */
async function setHold(ssp, hold) {
  await call(`/api/svc/opd/${encodeURIComponent(ssp)}/`, 'PUT', { hold })
  await readLive()
}

/** @param {{ ssp: string, name: string, held: boolean, short?: boolean }} props */
export function HoldButton({ ssp, name, held, short = false }) {
  if (!may('operator')) return null
  const verb = held ? 'Release' : 'Hold'
  const change = () =>
    ask({
      title: `${verb} ${name}?`,
      text: held
        ? `OPD prices the bids of ${name} again, on every node within 2 seconds.`
        : `The bids of ${name} leave at their own price (factor 1), on every node within 2 seconds, until you release it. Bids and wins continue; the margin of new bids is 0.`,
      verb,
      danger: !held,
      act: () => setHold(ssp, !held),
      done: held ? `${name} is released.` : `${name} is on hold.`,
      undo: () => setHold(ssp, held),
    })
  return html`<button type="button" onClick=${change} aria-label=${`${verb} ${name}`}>${short ? verb : `${verb} ${name}`}</button>`
}
