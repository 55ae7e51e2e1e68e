import type { SessionAnswer } from '../server/answers/access.ts'

/** Props of every view. */
export interface ViewProps {
  /** Null: the platform's own view, for operators. */
  readonly workspace: string | null
  /** The path after the view's name: ['acme.voice'] for /console/acme/routes/acme.voice. */
  readonly path: readonly string[]
  readonly query: URLSearchParams
  readonly session: SessionAnswer
}

/** The same for views that are always of one workspace. */
export interface WorkspaceViewProps extends ViewProps {
  readonly workspace: string
}
