/** The models: frozen or learning, snapshots, and what operators can do with them. */
import { useState } from 'preact/hooks'
import { ask } from '../actions.js'
import { time, whole } from '../format.js'
import { html } from '../html.js'
import { Level, Loaded, Table, Term, useRead } from '../parts.js'
import { call } from '../session.js'
import { live, may, seesAll } from '../state.js'

/** @typedef {{ id: string, mode: string, at: string, bytes: number, newest: boolean }} Snapshot */
/** @typedef {{ frozen: boolean, models: { mode: string, epoch: number, rolled_back_at: string | null }[], resets: Record<string, number>, snapshots: Snapshot[] }} Models */

const columns = [
  {
    name: 'Snapshot',
    text: true,
    cell: (/** @type {Snapshot} */ { id }) => html`<code>${id}</code>`,
  },
  { name: 'Mode', text: true, cell: (/** @type {Snapshot} */ { mode }) => mode },
  { name: 'Written', text: true, cell: (/** @type {Snapshot} */ { at }) => time(at) },
  { name: 'KiB', wide: true, cell: (/** @type {Snapshot} */ { bytes }) => whole(bytes / 1024) },
]

export function Models() {
  const models = useRead(() => call('/api/svc/models/'), [])
  const [supplier, setSupplier] = useState('')
  const command = async (/** @type {string} */ name, /** @type {object} */ body = {}) => {
    await call(`/api/svc/models/${name}/`, 'POST', body)
    await models.again()
  }
  const steers = may('operator') && seesAll.value
  const askFreeze = (/** @type {boolean} */ frozen) =>
    ask({
      title: frozen ? 'Let the models learn again?' : 'Freeze the models?',
      text: frozen
        ? 'All nodes learn again, and the wins that waited are learned, within 2 seconds.'
        : 'All nodes keep their prices as they are and learn nothing, within 2 seconds. Wins wait, up to 50,000 on each node.',
      verb: frozen ? 'Unfreeze' : 'Freeze',
      act: () => command(frozen ? 'unfreeze' : 'freeze'),
      undo: () => command(frozen ? 'freeze' : 'unfreeze'),
      done: frozen ? 'The models learn.' : 'The models are frozen.',
    })
  const askRollback = (/** @type {Snapshot} */ { id, at, mode }) =>
    ask({
      title: `Roll back the model of mode ${mode}?`,
      text: `All nodes return to the snapshot ${id} of ${time(at)}, within 2 seconds. What the model learned later is lost. Bids from before do not train it any more. This cannot be undone.`,
      verb: 'Roll back',
      danger: true,
      act: () => command('rollback', { id }),
      done: `The model of mode ${mode} is that of ${time(at)}.`,
    })
  const askReset = (/** @type {Event} */ event) => {
    event.preventDefault()
    ask({
      title: `Reset the model for ${supplier}?`,
      text: `The models of all nodes forget what they learned about ${supplier}, and begin again with small reductions. This cannot be undone, except by a roll-back of the whole model.`,
      verb: 'Reset',
      danger: true,
      act: () => command('reset', { supplier }),
      done: `The model begins again for ${supplier}.`,
    })
  }
  const actions = {
    name: 'Roll back',
    text: true,
    cell: (/** @type {Snapshot} */ snapshot) =>
      html`${snapshot.newest && html`<span class="tag">newest</span> `}<button type="button"
        aria-label=${`Roll back to ${snapshot.id}`} onClick=${() => askRollback(snapshot)}>Roll back</button>`,
  }
  return html`<h1>Models</h1>
    <${Loaded} of=${models}>${(
      /** @type {Models} */ { frozen, models: all, resets, snapshots },
    ) => html`
      <section class="sheet"><div class="row"><h2>Learning</h2>
          <${Level} level=${frozen ? 'warn' : 'ok'} label=${frozen ? 'frozen' : 'learning'} /><${Term} name="Freeze" />
          ${steers && html`<button type="button" onClick=${() => askFreeze(frozen)}>${frozen ? 'Unfreeze the models' : 'Freeze the models'}</button>`}</div>
        <ul>${all.map(
          ({ mode, epoch, rolled_back_at }) =>
            html`<li key=${mode}>mode ${mode}: <${Term} name="Epoch" /> ${epoch}, ${rolled_back_at === null ? 'never rolled back' : `rolled back ${time(rolled_back_at)}`}</li>`,
        )}</ul></section>
      <section><h2>Snapshots of the answering node</h2>
        ${
          snapshots.length === 0
            ? html`<p class="box">None yet: one is written every five minutes, and at the end of the process.</p>`
            : html`<${Table} label="Snapshots" rows=${snapshots} keyOf=${(/** @type {Snapshot} */ { id }) => id}
                columns=${steers ? [...columns, actions] : columns} />`
        }</section>
      <section class="sheet"><h2><${Term} name="Reset" /></h2>
        <ul>${Object.entries(resets).map(([id, times]) => html`<li key=${id}>${id}: ${whole(times)} ${times === 1 ? 'time' : 'times'}</li>`)}</ul>
        ${Object.keys(resets).length === 0 && html`<p class="soft">No supplier was reset.</p>`}
        ${
          may('operator') &&
          html`<form class="row" onSubmit=${askReset}><label class="pick">Supplier
            <select required value=${supplier} onChange=${(/** @type {Event} */ event) => setSupplier(/** @type {HTMLSelectElement} */ (event.target).value)}>
              <option value="">choose one</option>${live.value?.integrations.map(({ ssp, name }) => html`<option key=${ssp} value=${ssp}>${name}</option>`)}</select></label>
            <button type="submit">Reset the model</button></form>`
        }</section>`}<//>`
}
