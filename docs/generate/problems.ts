/** docs/reference/problems.md: the problems of both listeners. */
import { problems } from '../../admin/http/problems.ts'
import { problems as refusals } from '../../proxy/problem.ts'
import { code, page, table } from './markdown.ts'

const retries = {
  no: 'no',
  changed: 'when what it depends on has changed',
  later: 'yes, after `Retry-After` if the response has it',
} as const

export const problemsPage = () =>
  page(
    'Problems',
    'Errors are problem documents (RFC 9457). `code` is stable; `type` is `urn:bidweir:problem:` followed by it.',
    '## Admin listener',
    '`title` may be more precise than here, and `errors` has one entry for each fault. The last column says whether to send the same request again.',
    table(
      ['code', 'status', 'title', 'again?'],
      Object.entries(problems).map(([name, [status, title, retry]]) => [
        code(name),
        String(status),
        title,
        retries[retry],
      ]),
    ),
    '## Bid listener',
    'The request is refused as it is. What can be bid on and is not has [reasons](reasons.md) instead.',
    table(
      ['code', 'status', 'detail'],
      Object.entries(refusals).map(([name, [status, , detail]]) => [
        code(name),
        String(status),
        detail,
      ]),
    ),
  )
