/** `/api/svc/users/`: the users of the embedded realm, for operators of all accounts. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { maxPassword, minPassword, PasswordsBusyError } from '../auth/passwords.ts'
import { roles } from '../auth/roles.ts'
import {
  addUser,
  allUsers,
  type Changed,
  changeUser,
  findUser,
  isName,
  maxName,
  shown,
  type UserAuthor,
  type UserVerb,
} from '../auth/users.ts'
import { jsonAnswer, type Route } from '../http/call.ts'
import { parsed } from '../http/json-body.ts'
import { malformed, problem } from '../http/problem.ts'
import { ofAllAccounts } from '../management/access.ts'
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

const lengths = `has ${minPassword} to ${maxPassword} characters`
const password = z
  .string()
  .min(minPassword, `a password ${lengths}`)
  .max(maxPassword, `a password ${lengths}`)
const names = `up to ${maxName} characters, none of them white space`
const newUserSchema = z
  .strictObject({
    name: z
      .string()
      .min(1, `a name has 1 to ${names}`)
      .refine(isName, `a name has 1 to ${names}`)
      .describe(`1 to ${names}`),
    password,
    roles: z
      .array(z.enum(roles))
      .max(roles.length)
      .describe('Each role includes the ones before it'),
    account: z
      .string()
      .refine(isName, `an account has ${names}`)
      .describe('The account whose suppliers the user may see; `*`: all suppliers'),
  })
  .meta({ id: 'NewUser' })
const passwordSchema = z.strictObject({ password }).meta({ id: 'NewPassword' })

const example: z.infer<typeof userSchema> = {
  name: 'ann',
  roles: ['api'],
  account: 'acme-media',
  state: 'enabled',
  last_login: '2026-01-31T12:00:00.000Z',
}
const newUser: z.infer<typeof newUserSchema> = {
  ...{ name: 'ann', password: 'a long password', roles: ['api'], account: 'acme-media' },
}

const refusals = {
  unknown: [404, 'unknown_user', 'No such user'],
  last_admin: [
    409,
    'last_admin',
    'Without this user nobody could log in as operator of all accounts',
  ],
} as const satisfies Record<Exclude<Changed, 'changed'>, readonly [number, string, string]>

function refuse(reply: FastifyReply, why: keyof typeof refusals): FastifyReply {
  const [status, code, title] = refusals[why]
  return problem(reply, status, code, title)
}

/** Users of all accounts are in one list. */
const handled = (handler: Parameters<typeof ofAllAccounts>[0]) =>
  ofAllAccounts(async (request, reply) => {
    try {
      return await handler(request, reply)
    } catch (error) {
      if (!(error instanceof PasswordsBusyError)) throw error
      return problem(reply.header('retry-after', 2), 503, 'overloaded', error.message)
    }
  })

const author = ({ caller, id }: FastifyRequest): UserAuthor => ({
  ...{ who: caller!.subject, account: caller!.account, requestId: String(id) },
})

export function userRoutes({ store, now }: UsersDeps): Route[] {
  const find = (name: string) => findUser(store.db, name)

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
    problems: [...(body === undefined ? [] : [400, 413, 415]), 401, 403, 404, 409, 503],
    handler: handled(async (request, reply) => {
      const { name } = request.params as { name: string }
      const sent = body === undefined ? null : parsed(request.body, passwordSchema)
      if (sent !== null && 'faults' in sent) return malformed(reply, sent.faults)
      const before = await find(name)
      const options = { now: now(), by: author(request), ...sent?.value }
      const changed = await changeUser(store, name, verb, options)
      if (changed !== 'changed') return refuse(reply, changed)
      const user = (await find(name)) ?? before
      return user === null ? refuse(reply, 'unknown') : shown(user)
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
      problems: [401, 403, 503],
      handler: handled(async () => (await allUsers(store.db)).map(shown)),
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
      problems: [400, 401, 403, 409, 413, 415, 503],
      handler: handled(async (request, reply) => {
        const body = parsed(request.body, newUserSchema)
        if ('faults' in body) return malformed(reply, body.faults)
        const { name } = body.value
        if (!(await addUser(store, body.value, now(), author(request))))
          return problem(reply, 409, 'user_exists', `There is a user ${name} already`)
        const user = await find(name)
        return user === null ? refuse(reply, 'unknown') : reply.code(201).send(shown(user))
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
