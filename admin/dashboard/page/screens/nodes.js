import { html } from '../html.js'

export function Nodes() {
  return html`<h1>Nodes</h1>`
}
