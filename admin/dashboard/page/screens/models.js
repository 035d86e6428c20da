/** The models: frozen or learning, snapshots, and what operators can do with them. */
import { useState } from 'preact/hooks'
import { ask } from '../actions.js'
import { changeIfSame } from '../changes.js'
import { Level, loaded, number, Term, table, text, useRead } from '../components.js'
import { integer, time } from '../format.js'
import { Pick } from '../forms.js'
import { glossary } from '../glossary.js'
import { html } from '../html.js'
import { call } from '../session.js'
import { may, seesAll, supplierOptions } from '../state.js'

/** @import { Models as State } from '../../../management/models.ts' */
/** @typedef {State['snapshots'][number]} Snapshot */

/** @type {import('../components.js').Column<Snapshot>[]} */
const columns = [
  text('Snapshot', ({ id }) => html`<code>${id}</code>`),
  text('Mode', ({ mode }) => mode),
  text('Written', ({ at: instant }) => time(instant)),
  number('KiB', ({ bytes }) => integer(bytes / 1024), { wide: true }),
]

export function Models() {
  const models = useRead(() => /** @type {Promise<State>} */ (call('/api/svc/models/')), [])
  const [supplier, setSupplier] = useState('')
  const command = async (/** @type {string} */ name, /** @type {object} */ body = {}) => {
    await call(`/api/svc/models/${name}/`, 'POST', body)
    await models.again()
  }
  /** Freezes the models, or lets them learn. @param {boolean} frozen */
  const setFrozen = (frozen) =>
    changeIfSame({
      from: !frozen,
      trail: '',
      made: ({ action }) => action === 'freeze' || action === 'unfreeze',
      inWords: (value) => (value ? 'frozen' : 'learning'),
      async read() {
        const { frozen } = /** @type {State} */ (await call('/api/svc/models/'))
        return { value: frozen, version: null }
      },
      write: () => call(`/api/svc/models/${frozen ? 'freeze' : 'unfreeze'}/`, 'POST', {}),
    }).finally(models.again)
  const steers = may('operator') && seesAll.value
  const askFreeze = (/** @type {boolean} */ frozen) =>
    ask({
      title: frozen ? 'Let the models learn again?' : 'Freeze the models?',
      text: frozen
        ? 'All nodes learn again, and the wins that waited are learned, within 2 seconds.'
        : 'All nodes keep their prices as they are and learn nothing, within 2 seconds. Wins wait, up to 50,000 on each node.',
      verb: frozen ? 'Unfreeze' : 'Freeze',
      act: () => setFrozen(!frozen),
      undo: () => setFrozen(frozen),
      done: frozen ? 'The models learn.' : 'The models are frozen.',
    })
  const askRollback = (/** @type {Snapshot} */ { id, at: instant, mode }) =>
    ask({
      title: `Roll back the model of mode ${mode}?`,
      text: `All nodes return to the snapshot ${id} of ${time(instant)}, within 2 seconds. What the model learned later is lost. Bids from before do not train it any more. This cannot be undone.`,
      verb: 'Roll back',
      danger: true,
      act: () => command('rollback', { id }),
      done: `The model of mode ${mode} is that of ${time(instant)}.`,
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
  const rollback = text(
    'Roll back',
    (/** @type {Snapshot} */ snapshot) =>
      html`<button type="button"
        aria-label=${`Roll back to ${snapshot.id}`} onClick=${() => askRollback(snapshot)}>Roll back</button>${snapshot.newest && html` <span class="tag">newest</span>`}`,
  )
  return html`<h1>Models</h1>
    ${loaded(
      models,
      ({ frozen, models: all, resets, snapshots }) => html`
      <section class="sheet"><div class="row"><h2><${Term} name="Learning" text=${glossary['Freeze']} /></h2>
          <${Level} level=${frozen ? 'warn' : 'ok'} label=${frozen ? 'frozen' : 'learning'} />
          ${steers && html`<button type="button" onClick=${() => askFreeze(frozen)}>${frozen ? 'Unfreeze the models' : 'Freeze the models'}</button>`}</div>
        <ul>${all.map(
          ({ mode, epoch, rolled_back_at }) =>
            html`<li key=${mode}>mode ${mode}: <${Term} name="Epoch" /> ${epoch}, ${rolled_back_at === null ? 'never rolled back' : `rolled back ${time(rolled_back_at)}`}</li>`,
        )}</ul></section>
      <section><h2>Snapshots of the answering node</h2>
        ${
          snapshots.length === 0
            ? html`<p class="box">None yet: one is written every five minutes, and at the end of the process.</p>`
            : table({
                label: 'Snapshots',
                rows: snapshots,
                keyOf: ({ id }) => id,
                columns: steers ? [...columns, rollback] : columns,
              })
        }</section>
      <section class="sheet"><h2><${Term} name="Reset" /></h2>
        <ul>${Object.entries(resets).map(([id, times]) => html`<li key=${id}>${id}: ${integer(times)} ${times === 1 ? 'time' : 'times'}</li>`)}</ul>
        ${Object.keys(resets).length === 0 && html`<p class="soft">No supplier was reset.</p>`}
        ${
          may('operator') &&
          html`<form class="row" onSubmit=${askReset}>
            <${Pick} label="Supplier" value=${supplier} pick=${setSupplier} required options=${[['', 'choose one'], ...supplierOptions()]} />
            <button type="submit">Reset the model</button></form>`
        }</section>`,
    )}`
}
