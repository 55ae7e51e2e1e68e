import type {
  AppOptions,
  HttpRequest,
  HttpResponse,
  TemplatedApp,
  us_listen_socket,
  us_socket_context_t,
} from 'uWebSockets.js'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Logger } from '../../contracts/log.ts'

export type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket, us_socket_context_t }

/** The part of the native module that the edge uses. */
export interface Uws {
  App(): TemplatedApp
  /** Reads the files that the options name, at once. @throws Error that does not say what is wrong with them */
  SSLApp(options: AppOptions): TemplatedApp
  us_listen_socket_close(socket: us_listen_socket): void
  us_socket_local_port(socket: us_listen_socket): number
  _cfg(key: string): void
}

/**
 * Environment that must be set before `loadUws` runs: the native code reads it once, when it is loaded. Allows 16 KiB
 * of headers instead of 4 KiB, because a bearer token and tracing headers together exceed 4 KiB.
 */
export const UWS_ENVIRONMENT = { UWS_HTTP_MAX_HEADERS_SIZE: '16384' } as const

/**
 * Newest first. Both are installed, and which of them loads depends on this machine's libc and Node.
 *
 * The older one loses a chunk when its size waits in the cork, its data does not fit there and the reader takes nothing
 * (mended in uNetworking/uWebSockets 6b7f354). So nothing is written that the cork has no room for.
 */
const BUILDS = [
  { name: 'uWebSockets.js', libc: 'glibc 2.38 build', corkBytes: Number.POSITIVE_INFINITY },
  { name: 'uWebSockets.js-glibc227', libc: 'glibc 2.27 build', corkBytes: 16_384 },
] as const

/** Says so where the older build runs. @param version as `loadUws` tells it */
export function warnOfOldParser(version: string, log: Logger): void {
  if (version.endsWith(`(${BUILDS[0].libc})`)) return
  log.warn(
    { uws: version },
    'this is the older build of uWebSockets.js; the newest one needs glibc 2.38 (Debian 13, Ubuntu 24.04)',
  )
}

/**
 * Loads the first build of uWebSockets.js that this machine can run.
 *
 * @returns the module, its version for the log, e.g. `20.51.4 (glibc 2.27 build)`, and the bytes that may be written in
 *          one cork in chunks
 * @throws  Error that says for each build why it did not load
 */
export function loadUws(): { uws: Uws; version: string; corkBytes: number } {
  const require = createRequire(import.meta.url)
  const faults: string[] = []
  for (const { name, libc, corkBytes } of BUILDS) {
    try {
      const uws = require(name) as Uws
      // Leaves `uWebSockets: 20` out of every answer.
      uws._cfg('silent')
      return { uws, version: `${packageVersion(require.resolve(name), require)} (${libc})`, corkBytes }
    } catch (error) {
      faults.push(`${name}: ${error instanceof Error ? error.message.trim() : String(error)}`)
    }
  }
  throw new Error(`no build of uWebSockets.js loads on this machine\n${faults.join('\n')}`)
}

/** The package's `exports` hide its package.json from a require by name, so it is read beside the entry file. */
function packageVersion(entry: string, require: NodeJS.Require): string {
  const { version } = require(join(dirname(entry), 'package.json')) as { version: string }
  return version
}
