-- A record of the catalog.
--
-- KEYS catalog never
-- ARGV id owner
-- Reply {} | {draft, published}: there never was one in this owner's name, or nulls for what it does not have

if field('owners', ARGV[1]) ~= ARGV[2] then return {} end
return { field('drafts', ARGV[1]), field('published', ARGV[1]) }
