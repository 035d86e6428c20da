/**
 * The commands of docs/operations/release.md against a registry: image and chart are pushed and signed, and what was
 * signed is verified and installed. The keys are the test's own, so there is neither an identity nor a public log.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { needsHelm, root } from '../chart/helm.ts'
import { endWithTest } from '../support/children.ts'
import { freePort } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const images = process.env['BIDWEIR_IMAGES'] ?? '/nowhere'

function obstacle(): string | false {
  if (!existsSync(join(images, 'bidweir.tar')))
    return 'image of bidweir not found (BIDWEIR_IMAGES, .ci/image builds it)'
  for (const name of ['cosign', 'docker-registry', 'buildah', 'jq'])
    if (spawnSync('sh', ['-c', `command -v ${name}`]).status !== 0) return `${name} not found`
  return needsHelm.skip
}

/** Commands after `$ ` in the console blocks of a section, with the lines that continue them. */
function commandsOf(section: string): string {
  const page = readFileSync(join(root, 'docs/operations/release.md'), 'utf8')
  const [, text] = page.split(`\n## ${section}\n`) as [string, string]
  const blocks = text.split('\n## ')[0]!.matchAll(/^```console\n([\s\S]*?)^```$/gm)
  return [...blocks].map(([, block]) => block!.replaceAll(/^\$ /gm, '')).join('')
}

async function registry(t: Test, folder: string): Promise<string> {
  const address = `127.0.0.1:${await freePort()}`
  const file = join(folder, 'registry.yaml')
  const storage = `filesystem: {rootdirectory: ${folder}/registry}`
  writeFileSync(file, `version: 0.1\nstorage: {${storage}}\nhttp: {addr: "${address}"}\n`)
  const child = endWithTest(spawn('docker-registry', ['serve', file], { stdio: 'ignore' }))
  t.teardown(() => child.kill('SIGKILL'))
  const answers = () =>
    fetch(`http://${address}/v2/`).then(
      ({ ok }) => ok,
      () => false,
    )
  await until(answers)
  return address
}

/** The programs of the page as this machine has them; `cosign` with a key in place of an identity. */
const programs = `
  set -euo pipefail
  storage() { buildah --root "$IMAGES/root" --runroot "$IMAGES/run" --storage-driver overlay "$@"; }
  image() { echo "docker.io/library/bidweir:$VERSION"; }
  git() { echo 0000; }
  docker() {
    case "$1" in
      buildx)
        storage push -q --signature-policy "$IMAGES/policy.json" --tls-verify=false --digestfile digest "$(image)" "docker://$REGISTRY/bidweir:$VERSION"
        printf '{"containerimage.digest": "%s"}' "$(cat digest)" > image.json;;
      create) storage from --pull-never --signature-policy "$IMAGES/policy.json" "$(image)" > container;;
      cp) cp "$(storage mount "$(cat container)")/\${2#*:/}" "$3"; storage rm "$(cat container)" > /dev/null;;
    esac
  }
  helm() {
    case "$1" in
      package) command helm "$@";;
      push) command helm "$@" --plain-http;;
      install) shift; command helm template "$@" --plain-http > installed.yaml;;
    esac
  }
  cosign() {
    local command=$1 given=(); shift
    for each in "$@"; do case "$each" in --certificate-*) ;; *) given+=("$each");; esac; done
    case "$command" in
      verify*) command cosign "$command" --key \${KEY:-cosign.pub} --insecure-ignore-tlog "\${given[@]}";;
      *) command cosign "$command" --key cosign.key --tlog-upload=false "\${given[@]}";;
    esac
  }
`

t.test('a release as the document publishes and verifies it', { skip: obstacle() }, async (t) => {
  const folder = t.testdir({})
  symlinkSync(join(root, 'charts'), join(folder, 'charts'))
  const env = { ...process.env, IMAGES: images, COSIGN_PASSWORD: '', REGISTRY: '' }
  const address = await registry(t, folder)
  const run = (script: string) => {
    const text = `${programs}\n${script.replace('registry.example', address)}`
    const { status, stdout, stderr } = spawnSync('bash', ['-c', text], {
      ...{ cwd: folder, env, encoding: 'utf8' },
    })
    return { ok: status === 0, text: stdout + stderr }
  }
  t.equal(spawnSync('cosign', ['generate-key-pair'], { cwd: folder, env }).status, 0)
  const [publish, verify] = [commandsOf('Publish'), commandsOf('Verify')]
  const [names] = publish.split('\n') as [string]

  const published = run(`${publish}\ndeclare -p DIGEST CHART > digests`)
  t.ok(published.ok, published.text)
  const known = `${names}\nsource digests\n`
  const verified = run(known + verify)
  t.ok(verified.ok, verified.text)
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const { bomFormat, components } = JSON.parse(read('sbom.verified.json'))
  t.equal(bomFormat, 'CycloneDX')
  t.ok(components.length > 20)
  const { 'containerimage.digest': digest } = JSON.parse(read('image.json'))
  t.match(read('installed.yaml'), `image: "${address}/bidweir@${digest}"`)

  const registered = async (path: string) =>
    (await fetch(`http://${address}/v2/bidweir/${path}`, {
      headers: { accept: 'application/vnd.docker.distribution.manifest.v2+json' },
    }).then((response) => response.json())) as {
      config: { digest: string; User: string; Labels: Record<string, string> }
    }
  const { config: blob } = await registered(`manifests/${digest}`)
  const { config } = await registered(`blobs/${blob.digest}`)
  t.equal(config.User, '65532:65532')
  t.equal(config.Labels['org.opencontainers.image.licenses'], 'Apache-2.0')
  t.ok(statSync(join(images, 'bidweir.tar')).size <= 230e6, 'not compressed')

  // of another key
  t.ok(run('command cosign generate-key-pair --output-key-prefix other').ok)
  const other = run(`${known}export KEY=other.pub\n${verify}`)
  t.notOk(other.ok)
  t.match(other.text, /no matching signatures|invalid signature/)
  // another image under the tag of the release
  const replaced = run(`${known}
    container=$(storage from --pull-never --signature-policy "$IMAGES/policy.json" "$(image)")
    storage config --label changed=true "$container"
    storage commit -q --rm --signature-policy "$IMAGES/policy.json" "$container" localhost/changed > /dev/null
    storage push -q --signature-policy "$IMAGES/policy.json" --tls-verify=false localhost/changed "docker://$REGISTRY/bidweir:$VERSION"
    storage rmi localhost/changed > /dev/null
    cosign verify $REGISTRY/bidweir:$VERSION`)
  t.notOk(replaced.ok)
  t.match(replaced.text, /no signatures found/)
})
