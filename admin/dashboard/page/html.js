/** The template function of the page: htm makes Preact elements of template literals. */
import htm from 'htm'
import { h } from 'preact'

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = /** @type {any} */ (htm).bind(h)
