import type { SessionAnswer } from '../api/answers.ts'

/** What every view is given. */
export interface ViewProps {
  /** Null: the platform's own view, for operators. */
  readonly workspace: string | null
  /** What follows the view's name in the path: of /console/acme/routes/acme.voice it is ['acme.voice']. */
  readonly path: readonly string[]
  readonly query: URLSearchParams
  readonly session: SessionAnswer
}

/** The same for views that are always of one workspace. */
export interface WorkspaceViewProps extends ViewProps {
  readonly workspace: string
}
