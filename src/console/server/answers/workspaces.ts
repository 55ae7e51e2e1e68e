import type { Static } from 'typebox'
import type { Capability } from '../../../contracts/calls.ts'
import type * as shapes from '../answer-shapes.ts'

// Answers about workspaces and their apps. The page is typed by the same.

/** GET /workspaces → {workspaces} */
export type WorkspaceSummary = Static<typeof shapes.WorkspaceSummary>

/** GET /workspaces/:workspace, and what changes one answers. */
export type WorkspaceAnswer = Static<typeof shapes.Workspace>

export type PurposeAnswer = WorkspaceAnswer['purposes'][number]

export type AppAnswer = Static<typeof shapes.App>

/** GET /workspaces/:workspace/setup: what there is on the way to the first request. */
export interface SetupAnswer {
  /** Routes that the workspace may use, its own first. */
  readonly providers: readonly string[]
  /** The published route that an app uses, else any; null: there is none. */
  readonly route: {
    readonly name: string
    /** `provider/model` of its first entry. */
    readonly entry: string | null
    readonly kind: string | null
    readonly capabilities: readonly Capability[]
  } | null
  /** An app that uses a published route. */
  readonly app: string | null
  /** Keys that are valid now, those of the file among them. */
  readonly keys: number
  /** A request was sent at least once. */
  readonly called: boolean
}

/** GET /workspaces/:workspace/apps?search=…&limit=…&offset=… */
export interface AppsAnswer {
  readonly apps: readonly AppAnswer[]
  readonly total: number
  readonly all: number
}

/** GET /workspaces/:workspace/names?of=…&search=…&limit=…: what a picker offers; of routes, those that are published */
export interface NamesAnswer {
  readonly names: readonly {
    readonly id: string
    /** Not unique. */
    readonly name: string
  }[]
  readonly total: number
}
