import type { Static } from 'typebox'
import type * as shapes from '../answer-shapes.ts'

// Answers about API keys. The page is typed by the same.

/** GET /workspaces/:workspace/keys?search=…&app=…&state=…&limit=…&offset=… */
export interface KeysAnswer {
  readonly keys: readonly KeyAnswer[]
  /** Keys that match, on all pages. */
  readonly total: number
  /** Keys of the workspace. */
  readonly all: number
}

export type KeyAnswer = Static<typeof shapes.Key>

/** POST /workspaces/:workspace/keys and …/keys/:id/rotation: the only answers that show a key. */
export type NewKeyAnswer = Static<typeof shapes.NewKey>

/** POST /workspaces/:workspace/playground-key: a key of one hour for the page itself. */
export interface PlaygroundKeyAnswer {
  /** With it the page revokes the key when it is left. */
  readonly id: string
  readonly key: string
  readonly app: string
  readonly expires_at: string
}
