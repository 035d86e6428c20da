/** The models of a node: loaded, steered by the store, and exchanged with its workers and with other nodes. */
import { join } from 'node:path'
import type { Registry } from 'prom-client'
import type { Store } from '../admin/store/index.ts'
import { modelControlSource } from '../admin/store/model-control.ts'
import { nodeCountsOf } from '../admin/store/node-counts.ts'
import type { Log } from '../opd/base/log.ts'
import { byLabel, byName, counter, gauge, one, registerRows } from '../opd/base/metrics.ts'
import { oneAtATime } from '../opd/base/one-at-a-time.ts'
import { type Mode, modes } from '../opd/shared/arms.ts'
import { localModels } from '../opd/state/local-models.ts'
import type { ModelBus } from '../opd/state/model-bus.ts'
import { ModelManager } from '../opd/state/model-manager.ts'
import { ModelSync } from '../opd/state/model-sync.ts'
import { type RelayedModels, relayedModels } from '../opd/state/relayed-models.ts'
import { SealedModels } from '../opd/state/sealed-models.ts'
import type { HeldDecisions } from '../opd/state/shared-bid-log.ts'
import { localTokens } from '../opd/state/tokens.ts'
import type { ConfigRef } from './bid-path.ts'
import { currentVersions } from './config/files.ts'
import type { Config } from './config/schema.ts'
import { watchFiles } from './config/watch.ts'
import { sharedBidTtl } from './runtime-config.ts'

/**
 * The folder of the snapshots.
 *
 * @param config with the state folder as a path that is already resolved
 */
export const modelsDirOf = (config: Config) => join(config.stateDir, 'models')

interface ModelParts {
  current: ConfigRef
  store: Store
  registry: Registry
  /** Processes of this node. */
  processes: number
  /** The decisions that this node holds. */
  held: HeldDecisions
  now: () => number
  log: Log
  /** The models have executed a command of the store. */
  onControl: () => void
  /** The number of live nodes has changed. */
  onNodes: () => void
}

/**
 * How the processes of a node exchange model updates, with each other and with other nodes. Null: the only process of
 * the only node. `began`: milliseconds since the epoch.
 */
function modelBuses(
  { models }: ModelManager,
  processes: number,
  shared: ModelBus | null,
  began: number,
  log: Log,
): RelayedModels | null {
  if (processes === 1) return shared === null ? null : { first: shared, worker: shared }
  const local = localModels(models.node, (mode) => models.packed(mode), began)
  return shared === null ? { first: local, worker: local } : relayedModels(local, shared, log)
}

/** What the service needs of the models, wherever they come from. */
type ServedModels = Pick<ModelManager, 'learnerOf' | 'version' | 'epoch' | 'age' | 'control'> & {
  failures: { refused: number }
}

/**
 * The secrets that may have signed exported models; the first signs.
 *
 * @param config `models.key` replaces the context keys where it is given
 * @param keys the context keys, their secrets base64url, the one that encodes first
 */
export const modelSecrets = (
  { models }: Config,
  keys: readonly { secret: string }[],
): Uint8Array[] =>
  (models.key === undefined ? keys.map(({ secret }) => secret) : [models.key]).map((secret) =>
    Buffer.from(secret, 'base64url'),
  )

/** The models of a node without a network. */
async function openSealedModels({ current, registry, now, log }: ModelParts, file: string) {
  const { config } = current
  const { attributionWindow, keys = [] } = config.opd
  const secrets = modelSecrets(config, keys)
  const modelManager = await SealedModels.open({ file, secrets, attributionWindow, now, log })
  const watch = watchFiles(() => void modelManager.reload())
  watch.set(await currentVersions([file]))
  modelMetrics(registry, modelManager)
  return {
    modelManager,
    followModelControl: async () => {},
    redis: null,
    buses: null,
    unsentDeltas: null,
    tokens: null,
    nodes: 1,
    joined: true,
    refitSeconds: 0,
    close: async () => watch.close(),
  }
}

export function openModels(parts: ModelParts) {
  const { from } = parts.current.config.models
  return from === null ? openLearningModels(parts) : openSealedModels(parts, from)
}

async function openLearningModels(parts: ModelParts) {
  const { current, store, registry, processes, now, log } = parts
  const started = current.config
  const modelManager = new ModelManager({
    dir: modelsDirOf(started),
    attributionWindow: started.opd.attributionWindow,
    now,
    log,
    trains: started.node.role !== 'serve',
    journal: store.outcomes,
  })
  const controlSource = modelControlSource(store)
  const followModelControl = oneAtATime(async () => {
    await modelManager.execute(controlSource)
    parts.onControl()
  })
  await followModelControl()
  store.onChange(followModelControl)
  const nodeCounts = nodeCountsOf(store.db, started.location)
  let nodes = started.store.redis === null ? 1 : await nodeCounts.read()
  // Loaded only if configured: the Redis client is a sixth of the code that a start loads.
  const redis =
    started.store.redis === null
      ? null
      : new (await import('../opd/state/redis.ts')).RedisState({
          url: started.store.redis,
          location: started.location,
          bidTtl: () => sharedBidTtl(current.config),
          held: parts.held,
          now,
          log,
          nodes,
          onNodes(alive) {
            nodes = alive
            parts.onNodes()
            nodeCounts
              .write(alive)
              .catch((error: Error) =>
                log.warn({ err: error.message }, 'the number of nodes could not be stored'),
              )
          },
        })
  const buses = modelBuses(modelManager, processes, redis?.models ?? null, now(), log)
  const { role } = started.node
  const modelSync =
    buses === null
      ? null
      : new ModelSync({
          ...{ modelManager, log, role },
          bus: buses.first,
          isWaiting: buses.isWaiting,
        })
  if (modelSync !== null) modelSyncMetrics(registry, modelSync)
  modelMetrics(registry, modelManager)
  refitMetrics(registry, modelManager)
  return {
    modelManager,
    followModelControl,
    redis,
    buses,
    /** Without Redis nothing is sent to other nodes. */
    unsentDeltas: redis === null ? null : modelSync,
    tokens: redis?.tokens ?? (processes > 1 ? localTokens() : null),
    /** Live nodes. */
    get nodes() {
      return nodes
    },
    /** The models of the other nodes are here, or were waited for long enough. */
    get joined() {
      return modelSync?.joined ?? true
    },
    get refitSeconds() {
      return modelManager.refitter.seconds
    },
    async close() {
      await modelSync?.close()
      await redis?.close()
      await modelManager.close()
    },
  }
}

function modelMetrics(registry: Registry, modelManager: ServedModels): void {
  const byMode = (value: (mode: Mode) => number) => byName('mode', modes, value)
  registerRows(registry, [
    counter(
      'bidweir_model_snapshots_refused_total',
      'Damaged snapshots; an older one was loaded, or the model started empty',
      () => one(modelManager.failures.refused),
    ),
    gauge('bidweir_model_frozen', '1 while the model decides but does not learn', () =>
      one(Number(modelManager.control.frozen)),
    ),
    gauge(
      'bidweir_model_epoch_seconds',
      'Unix time of the last rollback of the model; 0 if there was none',
      () => byMode((mode) => (modelManager.control.rolledBackAt[mode] ?? 0) / 1000),
    ),
    counter(
      'bidweir_model_outcomes_stale_total',
      'Wins of bids from before a rollback; they do not train the model',
      () => byMode((mode) => modelManager.learnerOf(mode).counts.stale),
    ),
    counter(
      'bidweir_model_outcomes_lost_total',
      'Wins that did not fit into the buffer of a frozen model; they do not train it',
      () => byMode((mode) => modelManager.learnerOf(mode).counts.overflowed),
    ),
  ])
}

function refitMetrics(registry: Registry, { refitter }: ModelManager): void {
  registerRows(registry, [
    gauge(
      'bidweir_model_refit_seconds',
      'Time since the refit that runs began; 0 while none runs. One of more than 10 minutes is ended, as failed',
      () => one(refitter.seconds),
    ),
    counter('bidweir_model_refits_total', 'Refits of the model by result', () =>
      byName('result', ['applied', 'failed'] as const, (result) => refitter.counts[result]),
    ),
  ])
}

const deltaResults = ['sent', 'merged', 'refused', 'old', 'seen', 'dropped', 'lost'] as const

function modelSyncMetrics(registry: Registry, modelSync: ModelSync): void {
  registerRows(registry, [
    counter(
      'bidweir_model_deltas_total',
      'Model updates between nodes: sent; received and merged, refused as damaged, of an old epoch, or seen before; dropped unsent; lost with a node that ended',
      () => {
        const { counts } = modelSync
        return byName('result', deltaResults, (result) => counts[result])
      },
    ),
    counter(
      'bidweir_model_shared_total',
      'Models that this node wrote for the others, or took from them because it lacked updates; curves that it wrote, or adopted',
      () => {
        const { shared, taken, curvesShared, curvesReceived } = modelSync.counts
        return byLabel('result', [
          ['written', shared],
          ['taken', taken],
          ['curve_written', curvesShared],
          ['curve_adopted', curvesReceived],
        ])
      },
    ),
  ])
}
