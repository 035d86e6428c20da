/**
 * `/api/svc/models/`: freezes the models of all nodes, rolls them back, or makes them forget a supplier (CONTRACT 8).
 */
import type { FastifyRequest } from 'fastify'
import * as z from 'zod'
import { modes } from '../../opd/shared/arms.ts'
import { type SnapshotCatalog, SnapshotCatalogError } from '../../opd/state/snapshot-catalog.ts'
import { jsonAnswer, type Route } from '../http/call.ts'
import { bodyOf } from '../http/json-body.ts'
import { Problem } from '../http/problem.ts'
import { forgetSupplier, readModelControl, rollBack, setFrozen } from '../store/model-control.ts'
import { type Access, changeOf, everyone, find, ofAllAccounts, visible } from './access.ts'

export interface ModelAccess extends Access {
  /** Snapshots of the node that handles the request. */
  snapshots: SnapshotCatalog
  /** Resolves when this node has applied the state of the store. */
  followed: () => Promise<void>
}

const rollbackSchema = z
  .strictObject({
    /** Default: the snapshot before the newest, of each mode. */
    id: z.string().max(32).optional(),
  })
  .meta({ id: 'ModelsRollback' })
const resetSchema = z
  .strictObject({ supplier: z.string().min(1).max(63) })
  .meta({ id: 'ModelsReset' })
const mode = z.enum(['revenue', 'margin'])
const modelsSchema = z
  .strictObject({
    frozen: z.boolean(),
    models: z.array(
      z.strictObject({ mode, epoch: z.int(), rolled_back_at: z.iso.datetime().nullable() }),
    ),
    resets: z.record(z.string(), z.int()),
    snapshots: z.array(
      z.strictObject({
        id: z.string(),
        mode,
        at: z.iso.datetime(),
        bytes: z.int(),
        newest: z.boolean(),
      }),
    ),
  })
  .meta({ id: 'Models' })
export type Models = z.infer<typeof modelsSchema>

const example: Models = {
  frozen: false,
  models: [
    { mode: 'revenue', epoch: 1, rolled_back_at: '2026-01-31T12:00:00.000Z' },
    { mode: 'margin', epoch: 0, rolled_back_at: null },
  ],
  resets: { acme: 1 },
  snapshots: [
    {
      id: 'revenue-12',
      mode: 'revenue',
      at: '2026-01-31T11:55:00.000Z',
      bytes: 65536,
      newest: true,
    },
  ],
}

/** The common part of the four commands. */
const command = (
  name: string,
  id: string,
  summary: string,
  body: Route['body'],
  more: readonly number[] = [],
) =>
  ({
    method: 'POST',
    path: `/api/svc/models/${name}/`,
    id,
    tag: 'management',
    summary,
    description: 'Takes effect on every node within two seconds, and persists.',
    role: 'operator',
    ...(body === undefined ? {} : { body }),
    answers: { 200: jsonAnswer('The state after the change', modelsSchema, example) },
    problems: [400, ...more, 413, 415, 503],
  }) as const

export function modelRoutes(access: ModelAccess): Route[] {
  const { store, snapshots, followed, now } = access

  async function state(request: FastifyRequest): Promise<Models> {
    const { frozen, epochs, rolledBackAt, resets } = await readModelControl(store.db)
    const seen = new Set(visible(access, request).map(({ id }) => id))
    return {
      frozen,
      models: modes.map((mode) => {
        const rolledBack = rolledBackAt[mode]
        const rolled_back_at = rolledBack === null ? null : new Date(rolledBack).toISOString()
        return { mode, epoch: epochs[mode], rolled_back_at }
      }),
      resets: Object.fromEntries(Object.entries(resets).filter(([id]) => seen.has(id))),
      snapshots: await snapshots.list(),
    }
  }

  async function done(request: FastifyRequest): Promise<Models> {
    await followed()
    return state(request)
  }

  // All accounts share one model.
  const freezing = (frozen: boolean) =>
    ofAllAccounts(async (request) => {
      bodyOf(z.strictObject({}), request, '{}')
      const change = changeOf(request, everyone, frozen ? 'freeze' : 'unfreeze')
      await setFrozen(store, now(), frozen, change)
      return done(request)
    })

  return [
    {
      method: 'GET',
      path: '/api/svc/models/',
      id: 'readModels',
      tag: 'management',
      summary: 'The models: frozen or not, rollbacks, forgotten suppliers, snapshots of this node',
      role: 'viewer',
      answers: { 200: jsonAnswer('The present state', modelsSchema, example) },
      problems: [503],
      handler: state,
    },
    {
      ...command(
        'freeze',
        'freezeModels',
        'Freezes the models: they set prices and do not learn',
        undefined,
      ),
      handler: freezing(true),
    },
    {
      ...command('unfreeze', 'unfreezeModels', 'Lets the models learn again', undefined),
      handler: freezing(false),
    },
    {
      ...command(
        'rollback',
        'rollBackModels',
        'Rolls back to a snapshot of the node that handles the request',
        { schema: rollbackSchema, example: { id: 'revenue-12' }, optional: true },
        [404, 409],
      ),
      handler: ofAllAccounts(async (request) => {
        const { id } = bodyOf(rollbackSchema, request, '{}')
        try {
          const loaded = await snapshots.loadSnapshots(id)
          await rollBack(store, now(), loaded, changeOf(request, everyone, 'rollback'))
        } catch (error) {
          if (!(error instanceof SnapshotCatalogError)) throw error
          const { code, message } = error
          throw code === 'absent'
            ? new Problem('unknown_snapshot', { title: message })
            : new Problem('damaged_snapshot', { title: message })
        }
        return done(request)
      }),
    },
    {
      ...command(
        'reset',
        'resetModels',
        'Makes the models forget one supplier',
        { schema: resetSchema, example: { supplier: 'acme' } },
        [404],
      ),
      async handler(request) {
        const { id } = find(access, request, bodyOf(resetSchema, request).supplier)
        await forgetSupplier(store, now(), changeOf(request, id, 'reset'))
        return done(request)
      },
    },
  ]
}
