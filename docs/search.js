/* The theme's search takes each word for the beginning of one, and such beginnings have no stem: "resume" would find
   "resume_from_checkpoint", and not "resuming". So each plain word is asked for as a whole, too: lunr stems that. */
"use strict";
{
  const QUERY = 2; // the type of the theme's messages to its search worker
  const post = Worker.prototype.postMessage;
  const asked = (query) => {
    if (/["+\-:^~*]/.test(query)) return query; // somebody knows lunr's own language
    const words = query.split(/\s+/).filter((word) => word.length > 2);
    return words.length ? [...words, ...words.map((word) => `${word}^1`)].join(" ") : query;
  };
  Worker.prototype.postMessage = function (message, ...others) {
    const isQuery = message && message.type === QUERY && typeof message.data === "string";
    return post.call(this, isQuery ? { ...message, data: asked(message.data) } : message, ...others);
  };
}
