/** `bidweir user add` finds the store of the configuration that is named, however it is named. */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { command, newFolder } from '../support/process.ts'

t.test('--config FILE and --config=FILE are one, without a file it is wrong usage', async (t) => {
  const cwd = newFolder()
  writeFileSync(join(cwd, 'c.yaml'), 'store: {database: "sqlite:here/b.db"}\n')
  const stdin = 'correct horse battery\n'
  const joined = await command(['user', 'add', 'ann', '--config=c.yaml'], { cwd, stdin })
  t.equal(joined.code, 0, joined.stderr)
  t.ok(existsSync(join(cwd, 'here/b.db')))
  const apart = await command(['user', '--config', 'c.yaml', 'add', 'ann'], { cwd, stdin })
  t.equal(apart.code, 1, 'ann stands in the same store')
  t.match(apart.stderr, /already/)
  t.equal((await command(['user', 'add', 'bob', '--config'], { cwd, stdin })).code, 64)
  t.notOk(existsSync(join(cwd, 'data')), 'no other store was made')
})
