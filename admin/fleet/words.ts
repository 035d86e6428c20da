/** Counts and shares in the sentences of health and funnel. */

export interface Reason {
  /** The same name for as long as the same is wrong; `text` may change. */
  rule: string
  /** A sentence without its first capital and its full stop. */
  text: string
  /** What to do, as a sentence; null: the text says it. */
  fix: string | null
}

export const percent = (share: number) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)}%`
export const count = (value: number) => value.toLocaleString('en')
