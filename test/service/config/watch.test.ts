import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { type FileVersions, readText } from '../../../service/config/files.ts'
import { watchFiles } from '../../../service/config/watch.ts'
import { timePasses, until } from '../../support/until.ts'

const newFile = () => join(mkdtempSync(join(tmpdir(), 'bidweir-watch-')), 'bidweir.yaml')
const read = (...files: string[]): FileVersions =>
  new Map(files.map((file) => [file, readText(file).version]))

t.test('a file that is still being written is left until it has settled', async (t) => {
  const file = newFile()
  writeFileSync(file, 'suppliers: []\n')
  let calls = 0
  const watch = watchFiles(() => calls++, 40)
  t.teardown(() => watch.close())
  watch.set(read(file, join(file, 'no-such-place')))
  writeFileSync(file, '')
  for (let piece = 0; piece < 20; piece++) {
    appendFileSync(file, '# a line\n')
    await timePasses(5, 'the file is written slowly')
  }
  const during = calls
  await until(() => calls > during)
  t.equal(during, 0)
  rmSync(file)
  await until(() => calls > 1)
  t.equal(calls, 2, 'a file that goes is a change as well')
})

t.test('a change between reading a file and watching it is not lost', async (t) => {
  const file = newFile()
  writeFileSync(file, 'suppliers: []\n')
  const versions = read(file)
  appendFileSync(file, '# written while the service starts\n')
  let calls = 0
  const watch = watchFiles(() => calls++, 10)
  t.teardown(() => watch.close())
  watch.set(versions)
  await until(() => calls === 1)
  watch.set(versions)
  await until(() => calls === 2)
  t.equal(calls, 2, 'each comparison is with the content that was read')
})

t.test('a file that appears between two readings is not lost', async (t) => {
  const file = newFile()
  const versions = read(file)
  t.same([...versions.values()], ['ENOENT'])
  writeFileSync(file, 'suppliers: []\n')
  let calls = 0
  const watch = watchFiles(() => calls++, 10)
  t.teardown(() => watch.close())
  watch.set(versions)
  await until(() => calls === 1)
  t.equal(calls, 1)
})
