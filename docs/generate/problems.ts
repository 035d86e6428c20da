/** docs/reference/problems.md: the problems of the admin listener. */
import { problems } from '../../admin/http/problems.ts'
import { code, page, table } from './markdown.ts'

const retries = {
  no: 'no',
  changed: 'when what it depends on has changed',
  later: 'yes, after `Retry-After` if the response has it',
} as const

export const problemsPage = () =>
  page(
    'Problems',
    'Errors of the admin listener are problem documents (RFC 9457). `code` is stable. `title` may be more precise than here, and `errors` has one entry for each fault. The last column says whether to send the same request again.',
    table(
      ['code', 'status', 'title', 'again?'],
      Object.entries(problems).map(([name, [status, title, retry]]) => [
        code(name),
        String(status),
        title,
        retries[retry],
      ]),
    ),
  )
