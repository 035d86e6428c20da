import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { type RewriteCase, run } from '../../support/rewrite.ts'

interface ExpectedRewrite extends RewriteCase {
  /** The bid is left alone for it. */
  reason?: string
  /** The whole answer is. */
  answerReason?: string
  /** The bid is priced, with these facts (`a.b` looks into `a`). */
  priced?: Record<string, unknown>
  /** What comes out; null: the very bytes that came. */
  body?: string | null
  removed?: number
  left?: number
  unreadable?: boolean
}

type Tap = typeof import('tap').t

const valueAt = (value: unknown, path: string): unknown =>
  path.split('.').reduce<unknown>((inner, key) => (inner as Record<string, unknown>)[key], value)

function checkCase(t: Pick<Tap, 'equal' | 'strictSame'>, rewriteCase: ExpectedRewrite): void {
  const { came, out, reasons, priced } = run(rewriteCase)
  const stays =
    rewriteCase.reason !== undefined ||
    rewriteCase.answerReason !== undefined ||
    rewriteCase.body === null
  if (stays || rewriteCase.unreadable) t.equal(out.body, came, 'the very Buffer that came')
  if (rewriteCase.reason !== undefined) t.strictSame([...new Set(reasons)], [rewriteCase.reason])
  if (rewriteCase.answerReason !== undefined) t.equal(out.reason, rewriteCase.answerReason)
  if (rewriteCase.priced !== undefined) {
    t.equal(priced.length, 1, `priced, not ${reasons.join()}`)
    for (const [path, value] of Object.entries(rewriteCase.priced))
      t.equal(valueAt(priced[0], path), value, path)
  }
  if (typeof rewriteCase.body === 'string') t.equal(out.body.toString(), rewriteCase.body)
  if (rewriteCase.removed !== undefined) t.equal(out.removed, rewriteCase.removed, 'removed')
  if (rewriteCase.left !== undefined) t.equal(out.left, rewriteCase.left, 'left')
  t.equal(out.unreadable, rewriteCase.unreadable ?? false, 'unreadable')
}

const folder = new URL('fixtures/cases/', import.meta.url)
for (const file of readdirSync(folder)) {
  const cases = JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as ExpectedRewrite[]
  t.test(file.replace('.json', '').replaceAll('-', ' '), (t) => {
    for (const rewriteCase of cases)
      t.test(rewriteCase.title, (t) => {
        checkCase(t, rewriteCase)
        t.end()
      })
    t.end()
  })
}
