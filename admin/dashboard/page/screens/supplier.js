import { html } from '../html.js'

export function Supplier() {
  return html`<h1>Supplier</h1>`
}
