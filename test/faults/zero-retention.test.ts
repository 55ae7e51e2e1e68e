import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startLarkway } from '../support/larkway.ts'
import { RawClient } from '../support/raw-client.ts'
import { startEar } from '../support/slow-ear.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

t.setTimeout(120_000)

/** A multiple of three, so that its base64 repeats as well. */
const CANARY = 'the patient said that '.padEnd(24, '.')
const CANARIES = [CANARY, Buffer.from(CANARY).toString('base64')]
/** More than may be held. */
const WAV = filledWav(21_000_045)
WAV.fill(CANARY, 45)
const BUDGET_MIB = 16

interface Case {
  readonly require?: object
  readonly header?: string
  readonly as?: 'raw' | 'json'
}

async function startNode(t: Test, { require }: Case) {
  const ear = await startEar(t, { onWhole: () => {} })
  const key = makeKey()
  const promises = { region: 'eu', retention: 'zero', training: 'never' }
  const node = await startLarkway(t, {
    key,
    env: { EAR_KEY: 'ear', LARKWAY_MEMORY_MIB: `${BUDGET_MIB}` },
    config: {
      providers: {
        ear: {
          kind: 'deepgram',
          access: 'byok',
          workspace: 'acme',
          api_key: `\${EAR_KEY}`,
          base_url: ear.url,
          ...promises,
        },
      },
      routes: { voice: { workspace: 'acme', entries: [{ provider: 'ear', model: 'nova-3' }] } },
      workspaces: {
        acme: {
          ...(require === undefined ? {} : { require }),
          apps: { web: { route: 'voice' } },
          keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
        },
      },
    },
  })
  return { node, key, ear }
}

/** Every file below a folder that holds a canary. */
async function spilt(folder: string): Promise<string[]> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const found = await Promise.all(
    files
      .filter((file) => file.isFile())
      .map(async (file) => {
        const path = join(file.parentPath, file.name)
        const bytes = await readFile(path).catch(() => Buffer.alloc(0))
        return CANARIES.some((canary) => bytes.includes(canary)) ? [path] : []
      }),
  )
  return found.flat()
}

const CASES: readonly [string, Case, boolean][] = [
  ['nothing is demanded', {}, true],
  ['the workspace demands it', { require: { retention: 'zero' } }, false],
  ['the header demands it', { header: 'retention=zero' }, false],
  ['the header demands it of base64', { header: 'retention=zero', as: 'json' }, false],
]

for (const [name, one, isSpilt] of CASES)
  t.test(`a body in the store while ${name}, and after SIGKILL`, async (t: Test) => {
    const { node, key, ear } = await startNode(t, one)
    const body = one.as === 'json' ? Buffer.from(JSON.stringify({ audio: WAV.toString('base64') })) : WAV
    const client = await RawClient.connect(node.port)
    const headers = [
      'POST /v1/transcription HTTP/1.1',
      'Host: a',
      `Authorization: Bearer ${key}`,
      `Content-Type: ${one.as === 'json' ? 'application/json' : 'audio/wav'}`,
      `Content-Length: ${body.length}`,
      ...(one.header === undefined ? [] : [`X-LK-Require: ${one.header}`]),
    ]
    await client.send(`${headers.join('\r\n')}\r\n\r\n`, body)
    t.ok(await waitUntil(() => ear.requests[0]?.sha256 != null, 30_000), 'the provider has all of it')
    t.equal(ear.requests[0]?.length, WAV.length)
    const files = await readdir(node.dataFolder, { recursive: true })
    const sizes = await Promise.all(files.map(async (file) => (await stat(join(node.dataFolder, file))).size))
    t.same(
      sizes.filter((size) => size >= WAV.length),
      [body.length],
      'it went to the store',
    )
    t.equal((await spilt(node.dataFolder)).length > 0, isSpilt)
    await node.signal('SIGKILL')
    client.destroy()
    t.equal((await spilt(node.dataFolder)).length > 0, isSpilt)
    t.notOk(CANARIES.some((canary) => JSON.stringify(node.log).includes(canary)))
  })
