/** `/api/svc/users/`: the users of the embedded realm. Passwords, roles and removal stay with the command line. */
import * as z from 'zod'
import { type Changed, changeUser, type UserVerb } from '../auth/user-changes.ts'
import { allUsers, shown } from '../auth/users.ts'
import type { Route } from '../http/call.ts'
import { problem } from '../http/problem.ts'
import type { Store } from '../store/index.ts'

export interface UsersDeps {
  store: Pick<Store, 'db' | 'postgres'>
  now: () => number
}

const userSchema = z
  .strictObject({
    name: z.string(),
    roles: z.array(z.string()),
    account: z.string(),
    state: z.enum(['enabled', 'disabled']),
    last_login: z.iso.datetime().nullable(),
  })
  .meta({ id: 'User' })

const example: z.infer<typeof userSchema> = {
  name: 'ann',
  roles: ['api'],
  account: 'acme-media',
  state: 'enabled',
  last_login: '2026-01-31T12:00:00.000Z',
}

const refusals: Readonly<Record<Exclude<Changed, 'changed'>, readonly [number, string]>> = {
  unknown: [404, 'No such user'],
  last_admin: [409, 'Without this user nobody could log in as operator of all accounts'],
}

export function userRoutes({ store, now }: UsersDeps): Route[] {
  const change = (verb: UserVerb & ('disable' | 'enable'), summary: string): Route => ({
    method: 'POST',
    path: `/api/svc/users/{name}/${verb}/`,
    id: `${verb}User`,
    tag: 'management',
    summary,
    description: 'The sessions of the user end.',
    role: 'operator',
    params: { name: ['The user', 'ann'] },
    answers: { 200: { description: 'The user', content: { schema: userSchema, example } } },
    problems: [401, 403, 404, 409, 503],
    async handler(request, reply) {
      const { subject, account } = request.caller!
      if (account !== '*') return problem(reply, 403, 'forbidden', 'Only account * may do this')
      const { name } = request.params as { name: string }
      const by = { who: subject, account, requestId: String(request.id) }
      const changed = await changeUser(store, name, verb, { now: now(), by })
      if (changed !== 'changed') {
        const [status, title] = refusals[changed]
        return problem(reply, status, `${changed === 'unknown' ? 'unknown_user' : changed}`, title)
      }
      const user = (await allUsers(store.db)).find((each) => each.name === name)
      return user === undefined ? problem(reply, 404, 'unknown_user', 'No such user') : shown(user)
    },
  })
  return [
    {
      method: 'GET',
      path: '/api/svc/users/',
      id: 'listUsers',
      tag: 'management',
      summary: 'The users of the embedded realm',
      role: 'operator',
      answers: {
        200: {
          description: 'Users by name',
          content: { schema: z.array(userSchema), example: [example] },
        },
      },
      problems: [401, 403, 503],
      async handler(request, reply) {
        if (request.caller!.account !== '*')
          return problem(reply, 403, 'forbidden', 'Only account * may do this')
        return (await allUsers(store.db)).map(shown)
      },
    },
    change('disable', 'Ends the sessions of a user, who can no longer log in'),
    change('enable', 'Lets a disabled user log in again'),
  ]
}
