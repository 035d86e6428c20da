import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { watchFiles } from '../../../service/config/watch.ts'
import { timePasses, until } from '../../support/until.ts'

t.test('a file that is still being written is left until it has settled', async (t) => {
  const file = join(mkdtempSync(join(tmpdir(), 'bidweir-watch-')), 'bidweir.yaml')
  writeFileSync(file, 'suppliers: []\n')
  let calls = 0
  const watch = watchFiles(() => calls++, 40)
  t.teardown(() => watch.close())
  watch.set([file, join(file, 'no-such-place')])
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
