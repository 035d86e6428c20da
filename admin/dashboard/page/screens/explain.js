import { html } from '../html.js'

export function Explain() {
  return html`<h1>Explain</h1>`
}
