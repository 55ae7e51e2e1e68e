-- All that is published, of one and the same moment.
--
-- KEYS catalog never
-- ARGV
-- Reply {version, id, owner, published, …}: ids, owners and versions in turn

local published = { version() }
local held = redis.call('HGETALL', key('published'))
for i = 1, #held, 2 do
  table.insert(published, held[i])
  table.insert(published, field('owners', held[i]))
  table.insert(published, held[i + 1])
end
return published
