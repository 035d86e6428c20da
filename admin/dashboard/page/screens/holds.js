import { html } from '../html.js'

export function Holds() {
  return html`<h1>Holds</h1>`
}
