import type { Static } from 'typebox'
import type * as shapes from '../answer-shapes.ts'

/** GET /books?workspace=…: what accounts were charged, and what the records of usage cost, USD */
export type BooksAnswer = Static<typeof shapes.Books>
