/**
 * The models of a node without a network: they come from a signed file, decide, and do not learn. A changed file is read
 * again; one that is damaged or foreign is refused, and the models before it stay.
 */
import { readFile } from 'node:fs/promises'
import type { Log } from '../base/log.ts'
import { inSlices } from '../base/slices.ts'
import { OnlineLearner } from '../learner/learner.ts'
import type { LearnerOptions } from '../learner-types.ts'
import type { Mode } from '../shared/arms.ts'
import { ManagedLearner } from './managed-learner.ts'
import { initialControl, type ModelControl } from './model-control.ts'
import { type ModelFile, readingModelFile } from './model-file.ts'
import { unpackLater } from './snapshots.ts'

interface SealedModelsOptions {
  file: string
  /** Keys that may have signed the file. */
  secrets: readonly Uint8Array[]
  /** Milliseconds. */
  attributionWindow: number
  now: () => number
  log: Log
}

interface ServedModel {
  learner: ManagedLearner
  version: number
  epoch: number
}

/** The models of a node without network: those of a signed file, which never train. */
export class SealedModels {
  /** Files that were refused. */
  readonly failures = { refused: 0 }
  readonly control: ModelControl = { ...initialControl, frozen: true }
  private readonly options: SealedModelsOptions
  private readonly served: Readonly<Record<Mode, ServedModel>>
  /** When the models in use were exported, milliseconds since the epoch. */
  private exportedAt: number

  private constructor(options: SealedModelsOptions) {
    this.options = options
    this.exportedAt = options.now()
    const empty = () => {
      const learner = new ManagedLearner(new OnlineLearner(this.learnerOptions), 0, true)
      learner.freeze(true)
      return { learner, version: 0, epoch: 0 }
    }
    this.served = { revenue: empty(), margin: empty() }
  }

  /**
   * Reads the file.
   *
   * @param options the file, and the keys with which it may be signed
   * @throws with the name of the file if it cannot be used: there are no models before it
   */
  static async open(options: SealedModelsOptions): Promise<SealedModels> {
    const models = new SealedModels(options)
    await models.loadModels().catch((error: Error) => {
      throw new Error(`${options.file}: ${error.message}`, { cause: error })
    })
    return models
  }

  readonly learnerOf = (mode: Mode): ManagedLearner => this.served[mode].learner
  readonly version = (mode: Mode): number => this.served[mode].version
  readonly epoch = (mode: Mode): number => this.served[mode].epoch
  /** Seconds since the models were exported. */
  readonly age = (_mode: Mode): number => (this.options.now() - this.exportedAt) / 1000

  /** Reads the file again. If it cannot be used, the models stay. */
  async reload(): Promise<void> {
    const { file, log } = this.options
    try {
      await this.loadModels()
    } catch (error) {
      this.failures.refused++
      log.error(
        { file, err: (error as Error).message },
        'the model file was refused, the models before it stay',
      )
    }
  }

  private get learnerOptions(): LearnerOptions {
    const { attributionWindow } = this.options
    return { attributionWindow, carries: false, trains: false }
  }

  private async loadModels(): Promise<void> {
    const { file, secrets, log } = this.options
    const read = await inSlices(readingModelFile(await readFile(file), secrets))
    // All are made before one is used.
    const made = []
    for (const model of read.models) made.push({ ...model, ...(await this.made(model)) })
    for (const { mode, version, epoch, learner } of made) {
      const served = this.served[mode]
      served.learner.replace(learner, epoch)
      served.learner.rename(read.resets)
      Object.assign(served, { version, epoch })
    }
    this.exportedAt = read.at
    const versions = made.map(({ mode, version }) => `${mode}-${version}`)
    log.info({ file, models: versions, at: new Date(read.at).toISOString() }, 'models read')
  }

  /** In slices, because calls are priced meanwhile. */
  private async made({ packed }: ModelFile['models'][number]) {
    const { meta, learned } = await unpackLater(packed)
    const learner = await inSlices(OnlineLearner.restored(this.learnerOptions, learned))
    return { epoch: meta.epoch, learner }
  }
}
