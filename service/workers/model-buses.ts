/** How the processes of a node exchange model updates, with each other and with other nodes. */
import type { Mode } from '../../opd/pricing/arms.ts'
import { localModels } from '../../opd/state/local-models.ts'
import type { ModelManager } from '../../opd/state/model-manager.ts'
import type { ModelBus } from '../../opd/state/model-sync.ts'
import { type RelayedModels, relayedModels } from '../../opd/state/relayed-models.ts'

/** null: the only process of the only node. `began`: milliseconds since the epoch. */
export function modelBuses(
  { models }: ModelManager,
  processes: number,
  shared: ModelBus | null,
  began: number,
): RelayedModels | null {
  if (processes === 1) return shared === null ? null : { first: shared, worker: shared }
  const local = localModels(models.node, (mode) => models.packed(mode as Mode), began)
  return shared === null ? { first: local, worker: local } : relayedModels(local, shared)
}
