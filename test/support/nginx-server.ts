import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { CertificateFiles } from '../../src/gateway/edge/apps.ts'
import { freePort, type Teardown, tempFolder } from './scratch.ts'
import { Daemon, locate } from './servers.ts'

const DEPLOYED = fileURLToPath(new URL('../../scripts/deploy/nginx.conf', import.meta.url))
const STORE = fileURLToPath(new URL('../../scripts/deploy/nginx-store.conf', import.meta.url))

export interface NginxServer {
  readonly url: string
  readonly port: number
  /** Undefined without TLS. */
  readonly tlsPort: number | undefined
  /** What it has logged so far, of requests and of faults. */
  log(): Promise<string>
}

/**
 * A real nginx with the configuration that is deployed, ended with the test. Of the file nothing is changed
 * but where things are: `listen 8080` and, twice, `larkway-1:8080` to `larkway-3:8080` become addresses of the
 * loopback interface, and /tmp becomes a folder of the test's own. `user` is told on the command line,
 * because root's folders are root's.
 *
 * @param nodes ports of the three nodes
 * @param files have TLS end here as well, by the lines that the file has for it
 * @param store has signed URLs of a bucket lead to a store, as compose.yaml has it
 */
export async function startNginx(
  t: Teardown,
  nodes: readonly [number, number, number],
  files?: CertificateFiles,
  store?: { readonly port: number; readonly bucket: string },
): Promise<NginxServer> {
  const program = await locate('nginx')
  const folder = await tempFolder(t)
  const port = await freePort()
  const tls = files === undefined ? undefined : { ...files, port: await freePort() }
  const moved = place(await readFile(DEPLOYED, 'utf8'), { folder, port, nodes, tls })
  await mkdir(join(folder, 'stores'))
  if (store !== undefined) {
    const deployed = await readFile(STORE, 'utf8')
    const led = deployed
      .replace('garage:3900', `127.0.0.1:${store.port}`)
      .replace('/larkway/', `/${store.bucket}/`)
    await writeFile(join(folder, 'stores', 'store.conf'), led)
  }
  const path = join(folder, 'nginx.conf')
  await writeFile(path, moved)
  const globals = `daemon off;${process.getuid?.() === 0 ? ` user ${userInfo().username};` : ''}`
  const logPath = join(folder, 'nginx.log')
  const args = ['-p', folder, '-e', '/dev/stderr', '-c', path, '-g', globals]
  const daemon = new Daemon('nginx', program, args, logPath)
  t.teardown(() => daemon.end('SIGTERM'))
  await daemon.start(() => answers(port))
  return { url: `http://127.0.0.1:${port}`, port, tlsPort: tls?.port, log: () => readFile(logPath, 'utf8') }
}

interface Places {
  readonly folder: string
  readonly port: number
  readonly nodes: readonly number[]
  readonly tls: (CertificateFiles & { readonly port: number }) | undefined
}

const tlsLines = ({ port, certFile, keyFile }: NonNullable<Places['tls']>) => [
  { deployed: '#listen 8443 ssl;', here: `listen 127.0.0.1:${port} ssl;`, times: 1 },
  { deployed: '#ssl_certificate /etc/nginx/tls.crt;', here: `ssl_certificate ${certFile};`, times: 1 },
  { deployed: '#ssl_certificate_key /etc/nginx/tls.key;', here: `ssl_certificate_key ${keyFile};`, times: 1 },
]

/** @throws Error when the file does not have what is to be replaced as often as it should */
function place(text: string, { folder, port, nodes, tls }: Places): string {
  const replacements = [
    ...(tls === undefined ? [] : tlsLines(tls)),
    { deployed: '/etc/nginx/stores/', here: `${folder}/stores/`, times: 1 },
    { deployed: 'listen 8080;', here: `listen 127.0.0.1:${port};`, times: 1 },
    ...nodes.map((node, index) => ({
      deployed: `server larkway-${index + 1}:8080 `,
      here: `server 127.0.0.1:${node} `,
      times: 2,
    })),
  ]
  let moved = text.replaceAll(' /tmp/', ` ${folder}/`)
  for (const { deployed, here, times } of replacements) {
    const around = moved.split(deployed)
    if (around.length !== times + 1)
      throw new Error(`nginx.conf does not have "${deployed}" as often as ${times}`)
    moved = around.join(here)
  }
  return moved
}

/** Any answer will do: the nodes may be away. */
async function answers(port: number): Promise<boolean> {
  try {
    await (await fetch(`http://127.0.0.1:${port}/healthz`)).arrayBuffer()
    return true
  } catch {
    return false
  }
}
