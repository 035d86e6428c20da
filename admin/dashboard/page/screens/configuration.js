import { html } from '../html.js'

export function Configuration() {
  return html`<h1>Configuration</h1>`
}
