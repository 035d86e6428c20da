/** The template function of the page: htm makes Preact elements of template literals. */
import htm from 'htm'
import { h } from 'preact'

/** What a template or a component shows. @typedef {import('preact').ComponentChildren} Shown */

const bound = /** @type {unknown} */ (
  /** @type {Function} */ (/** @type {unknown} */ (htm)).bind(h)
)
export const html =
  /** @type {(strings: TemplateStringsArray, ...values: unknown[]) => import('preact').VNode} */ (
    bound
  )
