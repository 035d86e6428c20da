/** Snapshots of models over restarts: restored, damaged, retained, and failing disks. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import t from 'tap'
import type { ModelManager } from '../../../opd/state/model-manager.ts'
import { outdated, snapshots } from '../../../opd/state/snapshots.ts'
import {
  cold,
  errors,
  expects,
  hour,
  infos,
  modelManagerIn,
  train,
} from '../../support/model-manager.ts'
import { newFolder } from '../../support/process.ts'

t.test('what was learned is there after a restart, its version rises', async (t) => {
  const dir = newFolder()
  const first = modelManagerIn(dir)
  train(first, 300, true)
  const learned = expects(first)
  t.ok(learned > cold)
  await first.close()
  const second = modelManagerIn(dir)
  t.equal(expects(second), learned)
  t.equal(second.version('revenue'), 1)
  t.equal(second.age('revenue'), 0)
  await second.close()
})

t.test('a snapshot is written when the journal has settled what is in it', async (t) => {
  const dir = newFolder()
  const written: number[] = []
  const settleApplied = async () => {
    written.push(snapshots(readdirSync(dir), 'revenue').length)
    return true
  }
  const manager = modelManagerIn(dir, { journal: { settleApplied } })
  train(manager, 300, true)
  await manager.close()
  t.equal(written[0], 0)
  t.equal(snapshots(readdirSync(dir), 'revenue').length, 1)
})

t.test('a damaged snapshot is refused loudly, the one before it serves', async (t) => {
  const dir = newFolder()
  const first = modelManagerIn(dir)
  train(first, 300, true)
  await first.save()
  const learned = expects(first)
  train(first, 300, true)
  await first.close()
  const newest = snapshots(readdirSync(dir), 'revenue')[0]!.file
  const bytes = readFileSync(join(dir, newest))
  for (const damage of [
    (bytes: Buffer) => bytes.subarray(0, bytes.length / 2),
    (bytes: Buffer) => Buffer.from(bytes).fill(7, 200, 300),
    () => Buffer.alloc(0),
    () => Buffer.from('not gzip at all'),
  ]) {
    writeFileSync(join(dir, newest), damage(bytes))
    errors.length = 0
    const again = modelManagerIn(dir)
    t.equal(again.failures.refused, 1)
    t.match(errors, [/snapshot refused/])
    t.equal(expects(again), learned)
    t.equal(again.version('revenue'), 1)
  }
  for (const { file } of snapshots(readdirSync(dir), 'revenue')) writeFileSync(join(dir, file), 'x')
  t.equal(expects(modelManagerIn(dir)), cold, 'or learning starts afresh')
})

t.test('a snapshot of another version is no error: what is restored is said at info', async (t) => {
  const dir = newFolder()
  const first = modelManagerIn(dir)
  train(first, 300, true)
  await first.save()
  const learned = expects(first)
  train(first, 300, true)
  await first.close()
  const files = snapshots(readdirSync(dir), 'revenue')
  /** The learner's part of a snapshot begins with the magic number whose last byte is the version. */
  const ofVersion = (file: string, part: 'snapshot' | 'learner') => {
    const bytes = gunzipSync(readFileSync(join(dir, file)))
    const place = part === 'snapshot' ? 0 : bytes.indexOf('bwS')
    bytes[place + 3] = 0x7f
    writeFileSync(join(dir, file), gzipSync(bytes))
  }
  const restart = () => {
    errors.length = 0
    infos.length = 0
    const again = modelManagerIn(dir)
    t.same(errors, [])
    t.equal(again.failures.refused, 0)
    return again
  }
  ofVersion(files[0]!.file, 'learner')
  t.equal(expects(restart()), learned)
  t.match(infos[0], /another version: an older snapshot of this version is restored/)
  for (const { file } of files.slice(1)) ofVersion(file, 'snapshot')
  t.equal(expects(restart()), cold)
  t.match(infos[0], /another version: the model starts without them/)
})

t.test('48 hourly and 14 daily snapshots are kept', (t) => {
  const now = 1e12
  const files = Array.from({ length: 12 * 24 * 20 }, (_each, n) => ({
    file: `${n}`,
    version: 1e6 - n,
    writtenAt: now - n * 300_000,
  }))
  const gone = new Set(outdated(files, now).map(({ file }) => file))
  const stay = files.filter(({ file }) => !gone.has(file))
  const young = stay.filter(({ writtenAt }) => writtenAt > now - 48 * hour)
  t.ok(young.length >= 48 && young.length <= 51, `${young.length} of 48 hours`)
  t.ok(stay.length - young.length >= 12 && stay.length <= 64, `${stay.length}`)
  t.same(outdated(stay, now), [], 'and they stay')
  t.end()
})

t.test(
  'exposures that wait at an orderly end wait again; after a crash the model does not learn from them',
  async (t) => {
    const dir = newFolder()
    const later = (modelManager: ModelManager) => {
      const before = expects(modelManager)
      for (let now = 1000; now < 1e9; now += 1e7) modelManager.learnerOf('revenue').advance(now)
      return expects(modelManager) - before
    }
    const first = modelManagerIn(dir)
    train(first, 300, true)
    train(first, 8, false)
    await first.close()
    t.ok(later(modelManagerIn(dir)) < 0, 'learned as losses')
    t.equal(later(modelManagerIn(dir)), 0, 'nobody has said that the life before ended in order')
  },
)

t.test('what a crash left half written is swept, what fails leaves nothing', async (t) => {
  const dir = newFolder()
  writeFileSync(join(dir, '.revenue-00000001-1000000000000.bin.gz.tmp'), 'half')
  const modelManager = modelManagerIn(dir)
  const hidden = () => readdirSync(dir).filter((file) => file.startsWith('.'))
  t.same(hidden(), [])
  // A folder in the place of the snapshot: the last step fails.
  mkdirSync(join(dir, 'revenue-00000001-1000000000000.bin.gz', 'x'), { recursive: true })
  await modelManager.save()
  t.equal(modelManager.failures.writes, 1)
  t.same(hidden(), [])
})

t.test('a disk that fails costs snapshots, not learning', async (t) => {
  const dir = newFolder()
  let now = 1e12
  const modelManager = modelManagerIn(dir, { now: () => now })
  modelManager.learnerOf('revenue').inner.snapshotting = () => {
    throw new Error('no room')
  }
  errors.length = 0
  now += 60_000
  await modelManager.save()
  t.equal(modelManager.failures.writes, 1)
  t.match(errors, [/not written/])
  t.equal(modelManager.age('revenue'), 60, 'since the start: none was ever written')
  t.equal(modelManager.age('margin'), 0)
  t.ok(existsSync(dir))
})
