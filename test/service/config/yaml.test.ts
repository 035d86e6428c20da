import t from 'tap'
import { loadConfig } from '../../../service/config/load.ts'
import { file, supplier } from '../../support/config.ts'

t.test(
  'a fault of the YAML is told with its place, and beside it all else that can be read',
  (t) => {
    const told = (text: string) =>
      loadConfig(file(text)).faults.map(({ path, line, found }) => `${line} ${path}: ${found}`)
    const twice = 'a key that is repeated'
    t.same(
      told(
        `location: a\nlocation: b\nproxy: {via: 5, via: maybe}\nsuppliers:\n${supplier}    id: b\n`,
      ),
      [
        `2 location: ${twice}`,
        `3 proxy.via: ${twice}`,
        `7 suppliers[0].id: ${twice}`,
        '3 proxy.via: "maybe"',
      ],
    )
    t.same(told('location: !vault x\nproxy: {via: 5}\n'), [
      '1 location: Unresolved tag: !vault',
      '2 proxy.via: 5',
    ])
    t.same(told('location: a\n---\nlocation: b\n'), ['2 : a second document'])
    const secret =
      'opd: {keys: [{id: 1, secret: hunter2: 3}]}\nadmin: hunter2: {auth: x, auth: y}\n  hunter2: `hunter2` hunter2\n x: "a" hunter2]\n}hunter2\n'
    t.notMatch(
      JSON.stringify(loadConfig(file(secret))),
      'hunter2',
      'no part of a broken file is said',
    )
    t.same(told('${A}: 1\n${A}: 2\n')[0], `2 \${A}: ${twice}`)
    t.match(loadConfig(file('location: *nobody\n')).faults, [
      { found: /nobody/, allowed: /anchors above/ },
    ])
    t.end()
  },
)

t.test('a key that is repeated in an opd block switches OPD off for that supplier alone', (t) => {
  const opd = `suppliers:\n${supplier}    opd: {enabled: true, enabled: false}\n`
  const { config, invalidOpd } = loadConfig(file(opd))
  t.same([config?.suppliers[0]?.opd, [...invalidOpd]], [undefined, ['acme']])
  t.end()
})
