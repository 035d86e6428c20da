import { html } from '../html.js'

export function Audit() {
  return html`<h1>Audit</h1>`
}
