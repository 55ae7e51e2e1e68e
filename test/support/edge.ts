import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { ByteBudget, MemoryHolder } from '../../src/contracts/budget.ts'
import type { CertificateFiles } from '../../src/gateway/edge/apps.ts'
import type { EdgeOptions, EdgeRoute, EdgeServer } from '../../src/gateway/edge/server.ts'
import { startServer } from '../../src/gateway/edge/server.ts'
import { UWS_ENVIRONMENT } from '../../src/gateway/edge/uws.ts'
import { type Certificate, createAuthority } from './certificates.ts'
import { tempFolder } from './scratch.ts'

export interface Edge {
  readonly server: EdgeServer
  readonly port: number
  readonly origin: string
  /** Of TLS; 0: it has none. */
  readonly tlsPort: number
  /** Its holders are those of whom memory could be taken back now. */
  readonly budget: CountingBudget
  /** Log lines of level warn and above, parsed. */
  readonly logged: Record<string, unknown>[]
}

type CountingBudget = ByteBudget & { readonly peak: number; readonly holders: ReadonlySet<MemoryHolder> }

/** Starts the real HTTP edge on a free port of the loopback interface, closed when the test ends. */
export async function startEdge(
  t: Pick<Test, 'teardown'>,
  routes: readonly EdgeRoute[],
  {
    files,
    ...options
  }: Omit<Partial<EdgeOptions>, 'routes' | 'host' | 'port' | 'tls' | 'budget' | 'log'> & {
    readonly files?: CertificateFiles
  } = {},
): Promise<Edge> {
  Object.assign(process.env, UWS_ENVIRONMENT)
  const budget = countingBudget()
  const logged: Record<string, unknown>[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => logged.push(JSON.parse(line)) })
  const address = { host: '127.0.0.1', port: 0 }
  const tls = files === undefined ? {} : { tls: { ...address, files } }
  const server = await startServer({ routes, ...address, ...tls, budget, log, ...options })
  t.teardown(() => server.close())
  return {
    server,
    port: server.port,
    tlsPort: server.tlsPort ?? 0,
    origin: `http://127.0.0.1:${server.port}`,
    budget,
    logged,
  }
}

function countingBudget(): CountingBudget {
  const holders = new Set<MemoryHolder>()
  let used = 0
  let peak = 0
  const take = (bytes: number) => {
    used += bytes
    peak = Math.max(peak, used)
  }
  return {
    limit: 64 * 1024 * 1024,
    get used() {
      return used
    },
    get peak() {
      return peak
    },
    charge: take,
    tryReserve(bytes) {
      take(bytes)
      return true
    },
    refund: (bytes) => take(-bytes),
    holders,
    enrol: (holder) => void holders.add(holder),
    dismiss: (holder) => void holders.delete(holder),
  }
}

/** Files of a certificate for localhost, and the authority that a client is to trust. */
export interface LocalCertificate {
  readonly files: CertificateFiles
  readonly ca: string
  /** Has the files hold another certificate of the same authority: a new one, unless one is given. */
  renew(certificate?: Partial<Certificate>): Promise<void>
}

export async function localCertificate(t: Pick<Test, 'teardown'>): Promise<LocalCertificate> {
  const authority = createAuthority()
  const folder = await tempFolder(t)
  const files = { certFile: join(folder, 'tls.crt'), keyFile: join(folder, 'tls.key') }
  const renew = async (given?: Partial<Certificate>): Promise<void> => {
    const { cert, key } = given ?? authority.issue(['localhost'])
    if (cert !== undefined) await writeFile(files.certFile, cert)
    if (key !== undefined) await writeFile(files.keyFile, key, { mode: 0o600 })
  }
  await renew()
  return { files, ca: authority.cert, renew }
}
