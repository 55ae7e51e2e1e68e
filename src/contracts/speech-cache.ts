import type { CacheTerms, Entry } from './catalog.ts'

/** Where the audio of one text in one voice is kept. */
export interface CachePlace {
  readonly workspace: string
  /** Lower-case hex: a digest of all that the audio depends on, the workspace included. */
  readonly digest: string
}

/** Speech as it is kept: whole. */
export interface KeptSpeech {
  readonly audio: Uint8Array
  readonly mediaType: string
}

/**
 * Keeps speech: the newest in the memory of this node, all of it in the object store, which the nodes share. What is
 * older than its route allows is never found, nor what is not what was kept. Nothing of it throws or rejects: without
 * its store it finds nothing.
 */
export interface SpeechCache {
  /** Finds it in memory, without I/O. */
  recall(place: CachePlace, terms: CacheTerms): KeptSpeech | null
  /** Finds it in the store, and takes it into memory. */
  find(place: CachePlace, terms: CacheTerms): Promise<KeptSpeech | null>
  /** Resolves when every node can find it, or when the store has failed. */
  keep(place: CachePlace, terms: CacheTerms, speech: KeptSpeech): Promise<void>
  /** Gives back the memory. */
  close(): void
}

/** How a call was answered whose route keeps speech; `joined`: by the audio of another call, as that came. */
export type CacheOutcome = 'hit' | 'joined' | 'miss' | 'bypassed'

/** Is told what becomes of the speech that is kept. Nothing of it throws. */
export interface CacheWatch {
  looked(entry: Entry, how: CacheOutcome): void
  /** So many bytes of audio were given to a caller for whom no provider had to make them. */
  spared(entry: Entry, bytes: number): void
  /** An object was removed to make room. */
  evicted(): void
}
