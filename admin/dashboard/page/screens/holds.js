/** Holds: all in one place, and the button that sets and releases one. */
import { ask } from '../actions.js'
import { changeIfSame } from '../changes.js'
import { Level, Name, table, text } from '../components.js'
import { isolated } from '../format.js'
import { html } from '../html.js'
import { call } from '../session.js'
import { live, may, readLive, seesAll } from '../state.js'
import { NoSupplier } from './supplier-common.js'

/** @import { ListedIntegration } from '../../../fleet/live-schema.ts' */

/** @param {string} ssp @param {boolean} hold */
const setHold = (ssp, hold) =>
  changeIfSame({
    from: !hold,
    trail: `ssp=${encodeURIComponent(ssp)}`,
    made: ({ action }) => action === 'hold',
    inWords: (held) => (held ? 'on hold' : 'not on hold'),
    async read() {
      const holds = /** @type {{ supplier: string, hold: boolean }[]} */ (
        await call('/api/svc/opd/')
      )
      const value = holds.find(({ supplier }) => supplier === ssp)?.hold ?? false
      return { value, version: null }
    },
    write: () => call(`/api/svc/opd/${encodeURIComponent(ssp)}/`, 'PUT', { hold }),
  }).finally(readLive)

/** @param {{ ssp: string, name: string, held: boolean, short?: boolean }} props */
export function HoldButton({ ssp, name, held, short = false }) {
  if (!may('operator')) return null
  const verb = held ? 'Release' : 'Hold'
  const shown = isolated(name)
  const change = () =>
    ask({
      title: `${verb} ${shown}?`,
      text: held
        ? `OPD prices the bids of ${shown} again, on every node within 2 seconds.`
        : `The bids of ${shown} leave at their own price (factor 1), on every node within 2 seconds, until you release it. Bids and wins continue; the margin of new bids is 0.`,
      verb,
      danger: !held,
      act: () => setHold(ssp, !held),
      done: held ? `${shown} is released.` : `${shown} is on hold.`,
      undo: () => setHold(ssp, held),
    })
  return html`<button type="button" onClick=${change} aria-label=${`${verb} ${name}`}>${short ? verb : `${verb} ${shown}`}</button>`
}

const words = { no: 'not held', own: 'on hold', all: 'on hold with all' }

/** @type {import('../components.js').Column<ListedIntegration>[]} */
const columns = [
  text(
    'Supplier',
    ({ ssp, name }) =>
      html`<a href=${`#/supplier/${encodeURIComponent(ssp)}`}><${Name} name=${name} /></a>`,
  ),
  text(
    'Hold',
    ({ held }) => html`<${Level} level=${held === 'no' ? 'ok' : 'warn'} label=${words[held]} />`,
  ),
  text(
    'Change',
    ({ ssp, name, held }) =>
      held !== 'all' &&
      html`<${HoldButton} ssp=${ssp} name=${name} held=${held === 'own'} short />`,
  ),
]

export function Holds() {
  const now = live.value
  if (now === null) return null
  const priced = now.integrations.filter(({ opd }) => opd !== null && opd.state !== 'off')
  return html`<div class="row"><h1>Holds</h1>
      <${Level} level=${now.heldAll ? 'warn' : 'ok'} label=${now.heldAll ? 'all on hold' : `${priced.filter(({ held }) => held !== 'no').length} of ${priced.length} on hold`} />
      ${seesAll.value && html`<${HoldButton} ssp="*" name="all integrations" held=${now.heldAll} />`}</div>
    <p>While an integration is on hold, its bids leave at their own price. The <a href="#/audit">audit</a> says who changed it.</p>
    ${
      now.integrations.length === 0
        ? html`<${NoSupplier} />`
        : priced.length === 0
          ? html`<p class="box">OPD is off for every supplier that you see: there is nothing to hold. <a href="#/go-live">Go live</a> has the steps to switch it on.</p>`
          : table({
              label: 'Holds',
              rows: priced,
              keyOf: ({ ssp }) => ssp,
              columns: may('operator') ? columns : columns.slice(0, -1),
            })
    }`
}
