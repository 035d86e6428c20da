/** The leases of the node that leads: renewed between two rounds, and given up at its end, so that another node leads at once. */
import { type Mode, modes } from '../pricing/arms.ts'
import type { Log } from '../shared/log.ts'
import type { ModelManager } from './model-manager.ts'
import type { SharedCurve } from './shared-curve.ts'
import type { SharedModel } from './shared-model.ts'

interface ModelLeasesDeps {
  modelManager: ModelManager
  sharedModels: Record<Mode, SharedModel>
  sharedCurves: Record<Mode, SharedCurve>
  log: Log
  /** Synchronizes the models. */
  round: () => Promise<void>
}

export function modelLeases(deps: ModelLeasesDeps) {
  const { modelManager, sharedModels, sharedCurves, log, round } = deps

  async function renew(): Promise<void> {
    let due = false
    for (const mode of modes) {
      if (modelManager.of(mode).isFrozen) continue
      due = (await sharedModels[mode].keep()) || due
      due = (await sharedCurves[mode].keep(sharedModels[mode].leads)) || due
    }
    if (due) await round()
  }

  async function giveUp(): Promise<void> {
    for (const mode of modes)
      if (sharedModels[mode].leads) {
        await sharedCurves[mode].leave()
        await sharedModels[mode].leave()
      }
  }

  const logged = (what: string) => (error: Error) =>
    log.info({ err: error.message }, `the lease of the shared model was not ${what}`)
  let renewing: Promise<void> | null = null
  return {
    /** Renews the leases. Of a node that ended this one takes them, and runs a round. */
    keep(): Promise<void> {
      renewing ??= renew()
        .catch(logged('renewed'))
        .finally(() => {
          renewing = null
        })
      return renewing
    },
    /** Runs the last round of this node. */
    async leave(): Promise<void> {
      await renewing
      await round()
      await giveUp().catch(logged('given up'))
    },
  }
}
