/** `/api/svc/users/`: the users of the embedded realm, for operators of all accounts. */
import * as z from 'zod'
import {
  addUser,
  allUsers,
  type Changed,
  changeUser,
  fields,
  findUser,
  shown,
  type UserVerb,
} from '../auth/users.ts'
import { jsonAnswer, type Route } from '../http/call.ts'
import { bodyOf } from '../http/json-body.ts'
import { Problem } from '../http/problem.ts'
import { roles } from '../http/roles.ts'
import { authorOf, ofAllAccounts } from '../management/access.ts'
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
export type ShownUser = z.infer<typeof userSchema>

const newUserSchema = z
  .strictObject({
    name: fields.name,
    password: fields.password,
    roles: z
      .array(z.enum(roles))
      .max(roles.length)
      .describe('Each role includes the ones before it'),
    account: fields.account,
  })
  .meta({ id: 'NewUser' })
const passwordSchema = z.strictObject({ password: fields.password }).meta({ id: 'NewPassword' })

const example: ShownUser = {
  name: 'ann',
  roles: ['api'],
  account: 'acme-media',
  state: 'enabled',
  last_login: '2026-01-31T12:00:00.000Z',
}
const newUser: z.infer<typeof newUserSchema> = {
  name: 'ann',
  password: 'a long password',
  roles: ['api'],
  account: 'acme-media',
}

const refusals: Readonly<Record<Exclude<Changed, 'changed'>, () => Problem>> = {
  unknown: () => new Problem('unknown_user'),
  last_admin: () => {
    const title = 'Without this user nobody could log in as operator of all accounts'
    return new Problem('last_admin', { title })
  },
}

/** Users of all accounts are in one list, so that only account `*` may see it. */
export function userRoutes({ store, now }: UsersDeps): Route[] {
  async function read(name: string) {
    const user = await findUser(store.db, name)
    if (user === null) throw refusals.unknown()
    return shown(user)
  }

  const change = (verb: UserVerb, summary: string, body?: Route['body']): Route => ({
    method: 'POST',
    path: `/api/svc/users/{name}/${verb}/`,
    id: `${verb}User`,
    tag: 'management',
    summary,
    description: 'The sessions of the user end.',
    role: 'operator',
    params: { name: ['The user', 'ann'] },
    ...(body === undefined ? {} : { body }),
    answers: {
      200: jsonAnswer(verb === 'remove' ? 'The user, as before' : 'The user', userSchema, example),
    },
    problems: [404, 409, 503],
    handler: ofAllAccounts(async (request) => {
      const { name } = request.params as { name: string }
      const sent = body === undefined ? {} : bodyOf(passwordSchema, request)
      const before = await read(name)
      const options = { now: now(), by: authorOf(request), ...sent }
      const changed = await changeUser(store, name, verb, options)
      if (changed !== 'changed') throw refusals[changed]()
      return verb === 'remove' ? before : read(name)
    }),
  })

  return [
    {
      method: 'GET',
      path: '/api/svc/users/',
      id: 'listUsers',
      tag: 'management',
      summary: 'The users of the embedded realm',
      role: 'operator',
      answers: { 200: jsonAnswer('Users by name', z.array(userSchema), [example]) },
      problems: [503],
      handler: ofAllAccounts(async () => (await allUsers(store.db)).map(shown)),
    },
    {
      method: 'POST',
      path: '/api/svc/users/',
      id: 'addUser',
      tag: 'management',
      summary: 'Adds a user to the embedded realm',
      role: 'operator',
      body: { schema: newUserSchema, example: newUser },
      answers: { 201: jsonAnswer('The user', userSchema, example) },
      problems: [409, 503],
      handler: ofAllAccounts(async (request, reply) => {
        const user = bodyOf(newUserSchema, request)
        const { name } = user
        if (!(await addUser(store, user, now(), authorOf(request))))
          throw new Problem('user_exists', { title: `There is a user ${name} already` })
        return reply.code(201).send(await read(name))
      }),
    },
    change('passwd', 'Sets the password of a user', {
      schema: passwordSchema,
      example: { password: 'a long password' },
    }),
    change('disable', 'Ends the sessions of a user, who can no longer log in'),
    change('enable', 'Lets a disabled user log in again'),
    change('remove', 'Removes a user'),
  ]
}
