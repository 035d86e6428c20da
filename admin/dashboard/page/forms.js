/** Fields and forms. Handlers get values, not events. */
/** @import { Shown } from './html.js' */
import { html } from './html.js'

/** A handler that gets the value of its field. @param {(value: string) => void} then */
export const withValue =
  (then) =>
  (/** @type {Event} */ { target }) =>
    then(/** @type {HTMLInputElement} */ (target).value)

/** A handler of `submit` that gets the fields. @param {(field: (name: string) => string, form: HTMLFormElement) => void} then */
export const withFields = (then) => (/** @type {Event} */ event) => {
  event.preventDefault()
  const form = /** @type {HTMLFormElement} */ (event.target)
  const fields = new FormData(form)
  then((name) => String(fields.get(name) ?? ''), form)
}

/** A choice. @param {{ label: string, value: string, options: [value: string, label: Shown][], pick: (value: string) => void, required?: boolean }} props */
export const Pick = ({ label, value, options, pick, required = false }) =>
  html`<label class="pick">${label} <select value=${value} required=${required} onChange=${withValue(pick)}>
    ${options.map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}</select></label>`

/** @param {{ value: string, enter: (value: string) => void }} props */
export const Search = ({ value, enter }) =>
  html`<label class="search">Search <input type="search" value=${value} onInput=${withValue(enter)} /></label>`
