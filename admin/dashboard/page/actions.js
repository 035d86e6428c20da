/** Changes. A dialog says what a change does and asks for confirmation; a message then offers to undo it. */
import { signal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { Conflict } from './changes.js'
import { withFields } from './forms.js'
import { html } from './html.js'

/**
 * @typedef {object} Action
 * @property {string} title
 * @property {string} text What the change does.
 * @property {readonly string[]} [changes] What differs, a line each.
 * @property {string} verb Label of the button.
 * @property {boolean} [danger]
 * @property {{ label: string, type: 'password', minLength: number }} [input] A value that the dialog asks for.
 * @property {(input: string) => Promise<unknown>} act
 * @property {string} [failed] Before the reason, if it was not done. Default: Not changed.
 * @property {string} done The message after the change.
 * @property {() => Promise<unknown>} [undo]
 */

/** @type {import('@preact/signals').Signal<Action | null>} */
const asked = signal(null)
const fault = signal('')
/** The change cannot be made any more: what the dialog says is no longer so. */
const isOutdated = signal(false)
/** Whether a change runs now, for all buttons. */
const pending = signal(false)
/** @type {import('@preact/signals').Signal<{ text: string, undo?: Action['undo'], bad?: boolean } | null>} */
const message = signal(null)

/** @param {Action} action */
export function ask(action) {
  fault.value = ''
  isOutdated.value = false
  message.value = null
  asked.value = action
}

/** Resolves to the fault; null: none. @param {() => Promise<unknown>} act @returns {Promise<Error | null>} */
async function attempt(act) {
  pending.value = true
  try {
    await act()
    return null
  } catch (error) {
    return /** @type {Error} */ (error)
  } finally {
    pending.value = false
  }
}

/** @param {Action} action @param {string} input */
async function run({ act, done, undo, failed = 'Not changed' }, input) {
  fault.value = ''
  const why = await attempt(() => act(input))
  if (why !== null) {
    isOutdated.value = why instanceof Conflict
    fault.value = `${failed}: ${why.message}`
    return
  }
  asked.value = null
  message.value = { text: done, undo }
}

/** @param {() => Promise<unknown>} act */
async function undo(act) {
  const why = await attempt(act)
  message.value =
    why === null ? { text: 'Undone.' } : { text: `Not undone: ${why.message}`, bad: true }
}

export function Dialog() {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null))
  /** What the dialog showed when it was opened or closed last. */
  const shown = useRef(/** @type {Action | null} */ (null))
  const action = asked.value
  // At once, not after the next frame: a message beside a dialog that is still open cannot have the focus.
  useLayoutEffect(() => {
    shown.current = action
    if (action !== null) ref.current?.showModal()
    else ref.current?.close()
  }, [action])
  const busy = pending.value
  return html`<dialog ref=${ref} aria-labelledby="ask-title" onClose=${() => {
    // The event of a dialog that this code closed comes later, maybe when the next dialog is open.
    if (asked.value === shown.current && !ref.current?.open) asked.value = null
  }}>
    ${
      action &&
      html`<form method="dialog" onSubmit=${withFields((field) => void run(action, field('input')))}>
        <h2 id="ask-title">${action.title}</h2>
        <p>${action.text}</p>
        ${
          action.changes &&
          html`<ul class="changes">${action.changes.map((line) => html`<li key=${line}>${line}</li>`)}</ul>`
        }
        ${action.undo && html`<p class="soft">You can undo this.</p>`}
        ${
          action.input &&
          html`<label>${action.input.label} <input name="input" type=${action.input.type} required
            minlength=${action.input.minLength} autocomplete="new-password" /></label>`
        }
        <p class="fault" role="alert">${fault}</p>
        <div class="row end">
          <button type="button" disabled=${busy} onClick=${() => {
            asked.value = null
          }}>${isOutdated.value ? 'Close' : 'Cancel'}</button>
          ${
            !isOutdated.value &&
            html`<button type="submit" class=${action.danger ? 'primary danger' : 'primary'} disabled=${busy} aria-busy=${busy}>
            ${busy ? 'Working…' : action.verb}
          </button>`
          }
        </div>
      </form>`
    }
  </dialog>`
}

/** The result of the last change. The only live region of the page besides faults. */
export function Message() {
  const last = message.value
  const back = last?.undo
  return html`<div class="said" role="status">
    ${
      last &&
      html`<p class=${last.bad ? 'box bad' : 'box'}>
        <span>${last.text}</span>
        ${back && html`<button type="button" disabled=${pending.value} onClick=${() => undo(back)}>Undo</button>`}
        <button type="button" class="plain" aria-label="Close message" onClick=${() => {
          message.value = null
        }}>×</button>
      </p>`
    }
  </div>`
}
