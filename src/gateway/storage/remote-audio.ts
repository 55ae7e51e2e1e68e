import type { StoredBody } from '../../contracts/audio.ts'
import type { Snapshot } from '../../contracts/catalog.ts'
import { newId } from '../../contracts/ids.ts'
import type { FetchAudio, RemoteAudio, RemoteAudioOptions, RemoteBody } from '../../contracts/remote-audio.ts'
import type { BodyWriter, Spool } from '../../contracts/spool.ts'
import type { State } from '../../contracts/state.ts'
import { rejected } from '../outbound/fetch-failure.ts'
import { judgeUrl } from '../outbound/remote-url.ts'

export interface RemoteAudioDependencies {
  readonly spool: Spool
  readonly fetchAudio: FetchAudio
}

/** Brings audio from URLs into the object store, at the pace at which that takes it. */
export function createRemoteAudio({ spool, fetchAudio }: RemoteAudioDependencies): RemoteAudio {
  return {
    async fetch(url, options) {
      const remote = await fetchAudio(url, options)
      const body = await store(remote, spool, options)
      const { length, mediaType } = remote
      const whole = {
        offset: 0,
        length,
        encoding: 'identity',
        decodedBytes: length,
        canonical: true,
      } as const
      const audio = { source: body.source, ...whole, mediaType, filename: null }
      return { audio, release: () => body.release() }
    },
  }
}

async function store(
  { length, chunks }: RemoteBody,
  spool: Spool,
  { workspace, job, sealed = false }: RemoteAudioOptions,
): Promise<StoredBody> {
  const place = job === undefined ? { id: newId('req') } : ({ id: job, kind: 'job' } as const)
  // A host is as slow as it likes: it takes no memory from those who send their audio themselves.
  const writer = spool.open({ workspace, contentLength: length, stored: true, sealed, ...place })
  const pace = new Pace(writer)
  try {
    // The host waits until there is a place for it, since it is not read before.
    await writer.start()
    for await (const chunk of chunks) {
      writer.write(chunk)
      if (!writer.ready) await pace.ready()
    }
    return await writer.finish()
  } catch (error) {
    // A host that is not read would keep its connection.
    void chunks[Symbol.asyncIterator]().return?.()
    // Left in the background: an answer must not depend on a store that hangs.
    writer.abort().catch(() => {})
    throw error
  }
}

/** Waits until a writer takes more, or has failed. */
class Pace {
  #failure: Error | null = null
  #waiting: { resolve(): void; reject(error: Error): void } | null = null
  readonly #writer: BodyWriter

  constructor(writer: BodyWriter) {
    this.#writer = writer
    writer.onReady = () => this.#waiting?.resolve()
    writer.onFailure = (error) => {
      this.#failure = error
      this.#waiting?.reject(error)
    }
  }

  async ready(): Promise<void> {
    if (this.#failure !== null) throw this.#failure
    if (this.#writer.ready) return
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#waiting = { resolve, reject }
    await promise
    this.#waiting = null
  }
}

/** Sources of the hosts that audio may be fetched from. */
interface AllowedDomains {
  readonly snapshot: () => Pick<Snapshot, 'audioUrlDomains'>
  readonly state: { readonly settings: Pick<State['settings'], 'audioUrlDomains'> }
}

/**
 * Lists the hosts that a workspace may have audio fetched from: the platform's and its own.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE when the state does not answer
 */
export async function allowedDomains(
  workspace: string,
  { snapshot, state }: AllowedDomains,
): Promise<readonly string[]> {
  const own = await state.settings.audioUrlDomains(workspace)
  return [...snapshot().audioUrlDomains, ...own]
}

/**
 * Checks a URL that is fetched later, by its text alone: its host is not resolved.
 *
 * @throws GatewayError AUDIO_URL_REJECTED; as `allowedDomains`
 */
export async function checkAudioUrl(url: string, workspace: string, allowed: AllowedDomains): Promise<void> {
  const judged = judgeUrl(url, await allowedDomains(workspace, allowed))
  if ('rejected' in judged) throw rejected(judged.rejected)
}

/** Identifies audio by its URL where its digest is not known. */
export function urlIdentity(url: string): string {
  return `url ${url}`
}
