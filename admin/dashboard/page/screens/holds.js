/** All holds in one place. */
import { html } from '../html.js'
import { Level, Table, Term } from '../parts.js'
import { live, may, seesAll } from '../state.js'
import { HoldButton } from './hold.js'

/** @import { LiveIntegration } from '../../../fleet/live.ts' */

const words = { no: 'not held', own: 'on hold', all: 'on hold with all' }

const columns = [
  {
    name: 'Supplier',
    text: true,
    cell: (/** @type {LiveIntegration} */ { ssp, name }) =>
      html`<a href=${`#/supplier/${encodeURIComponent(ssp)}`}>${name}</a>`,
  },
  {
    name: 'Hold',
    text: true,
    cell: (/** @type {LiveIntegration} */ { held }) =>
      html`<${Level} level=${held === 'no' ? 'ok' : 'warn'} label=${words[held]} />`,
  },
]
const action = {
  name: 'Change',
  text: true,
  cell: (/** @type {LiveIntegration} */ { ssp, name, held }) =>
    held !== 'all' && html`<${HoldButton} ssp=${ssp} name=${name} held=${held === 'own'} short />`,
}

export function Holds() {
  const now = live.value
  if (now === null) return null
  const priced = now.integrations.filter(({ opd }) => opd !== null && opd.state !== 'off')
  return html`<div class="row"><h1>Holds</h1>
      <${Level} level=${now.heldAll ? 'warn' : 'ok'} label=${now.heldAll ? 'all on hold' : `${priced.filter(({ held }) => held !== 'no').length} of ${priced.length} on hold`} />
      ${seesAll.value && html`<${HoldButton} ssp="*" name="all integrations" held=${now.heldAll} />`}</div>
    <p>On <${Term} name="Hold" /> an integration prices nothing: bids leave at their own price. Who did it is in the <a href="#/audit">audit</a>.</p>
    ${
      priced.length === 0
        ? html`<p class="box">OPD is off for every supplier that you see: there is nothing to hold.</p>`
        : html`<${Table} label="Holds" rows=${priced} keyOf=${(/** @type {LiveIntegration} */ { ssp }) => ssp}
            columns=${may('operator') ? [...columns, action] : columns} />`
    }`
}
