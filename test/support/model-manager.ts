/** Model managers without timers, with bids that train them and their predictions. */
import { type BidFacts, createLearner, type Policy } from '../../opd/learner.ts'
import { ModelManager, type ModelManagerOptions } from '../../opd/state/model-manager.ts'

export const errors: string[] = []
export const infos: string[] = []
const log = {
  info: (_fields: object, text: string) => void infos.push(text),
  warn() {},
  error: (_fields: object, text: string) => void errors.push(text),
}
export const facts: BidFacts = {
  supplier: 'acme',
  mode: 'revenue',
  inBa: 2,
  floor: 0.5,
  publisher: 'p',
}
const policy: Policy = { minWinRate: 0, explore: 0, holdout: 0 }
export const hour = 3_600_000

export function modelManagerIn(dir: string, more: Partial<ModelManagerOptions> = {}): ModelManager {
  const never = { advanceEvery: 1e8, snapshotEvery: 1e8 }
  return new ModelManager({
    dir,
    attributionWindow: hour,
    now: () => 1e12,
    log,
    ...never,
    ...more,
  })
}

/** Bids that are all won, or all lost. */
export function train(
  modelManager: ModelManager,
  bids: number,
  won: boolean,
  supplier = 'acme',
): Uint8Array[] {
  const learner = modelManager.learnerOf('revenue')
  return Array.from({ length: bids }, (_each, n) => {
    const decision = learner.decide({ ...facts, supplier }, policy, `k${n}`, n, () => 0.5)
    const features = learner.expose(decision, decision.outBa, n)
    if (won) learner.win(features, 1, n + 1)
    return features
  })
}
export const expects = (modelManager: ModelManager, supplier = 'acme') =>
  modelManager.learnerOf('revenue').decide({ ...facts, supplier }, policy, 'k', 1, () => 0.5).winIn
export const cold = createLearner({}).decide(facts, policy, 'k', 1, () => 0.5).winIn
