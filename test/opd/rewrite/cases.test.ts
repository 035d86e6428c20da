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

const at = (value: unknown, path: string): unknown =>
  path.split('.').reduce<unknown>((inner, key) => (inner as Record<string, unknown>)[key], value)

function checkCase(t: Pick<Tap, 'equal' | 'strictSame'>, each: ExpectedRewrite): void {
  const { came, out, reasons, priced } = run(each)
  const stays = each.reason !== undefined || each.answerReason !== undefined || each.body === null
  if (stays || each.unreadable) t.equal(out.body, came, 'the very Buffer that came')
  if (each.reason !== undefined) t.strictSame([...new Set(reasons)], [each.reason])
  if (each.answerReason !== undefined) t.equal(out.reason, each.answerReason)
  if (each.priced !== undefined) {
    t.equal(priced.length, 1, `priced, not ${reasons.join()}`)
    for (const [path, value] of Object.entries(each.priced))
      t.equal(at(priced[0], path), value, path)
  }
  if (typeof each.body === 'string') t.equal(out.body.toString(), each.body)
  if (each.removed !== undefined) t.equal(out.removed, each.removed, 'removed')
  if (each.left !== undefined) t.equal(out.left, each.left, 'left')
  t.equal(out.unreadable, each.unreadable ?? false, 'unreadable')
}

const folder = new URL('fixtures/cases/', import.meta.url)
for (const file of readdirSync(folder)) {
  const cases = JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as ExpectedRewrite[]
  t.test(file.replace('.json', '').replaceAll('-', ' '), (t) => {
    for (const each of cases)
      t.test(each.title, (t) => {
        checkCase(t, each)
        t.end()
      })
    t.end()
  })
}
