"""Codes that others define: abbreviations of the large surveys, and postal codes.

What a column such as ``HINCP``, ``v130`` or ``PH010`` is. The American Community Survey (ACS), the
Demographic and Health Surveys (DHS), the European Union's statistics on income and living
conditions (EU-SILC), the National Health and Nutrition Examination Survey (NHANES), the tables of
clinical trials (CDISC), the Current Population Survey (CPS) and its harmonized form (IPUMS).

Names so short mean something only in their survey, so a codebook is opened where a table has some
of the names that give it away. Sources: the Census Bureau's PUMS data dictionaries, the DHS
standard recode manual, Eurostat's list of EU-SILC target variables, the NHANES documentation,
CDISC's SDTM, and IPUMS.

Postal codes are digits that are no number, whose first digits name an area.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns.vocabulary import Meaning, Role
from sfumato.errors import ColumnError, spell

_LAW = {
    "an age": ("C", "age"),
    "a birth year": ("C", "birth year"),
    "a part of a date": ("C", None),
    "a date": ("C", None),
    "a small area": ("B", None),
    "a person's number": ("R", None),
    "a household's number": ("R", None),
}
"""What is also on HIPAA's list, and the form in which it may stay."""
_FEW = 2
"""Values that a flag has at most."""


@dataclass(frozen=True)
class Codebook:
    """Names of one survey.

    Attributes
    ----------
    telling
        Names that hardly any other table has.
    needed
        How many of them open the book.
    entries
        Role, what it is, and names as a regular expression, the first that fits counts.
    """

    title: str
    telling: str
    entries: tuple[tuple[Role, str, str], ...]
    flags: str | None = None
    """Names of flags, if they have two values."""
    needed: int = 3

    def look_up(self, name: str, classes: int) -> Meaning | None:
        """What a name means in this survey; None if it is not in the book."""
        plain = name.lower()
        for role, what, pattern in self.entries:
            if re.fullmatch(pattern, plain):
                kind, form = _LAW.get(what, (None, None))
                return Meaning(role, what, kind=kind, form=form)
        if self.flags is not None and classes <= _FEW and re.fullmatch(self.flags, plain):
            return Meaning("other", "a flag about another column")
        return None


CODEBOOKS = (
    Codebook(
        "ACS",
        "serialno sporder pwgtp wgtp agep rac1p schl pincp hincp cow esr pobp hisp msp occp "
        "indp puma relp relshipp povpip jwmnp adjinc np ten bld hht fincp",
        (
            ("identifier", "a household's number", r"serialno|hhnum"),
            ("other", "a statistical weight", r"p?wgtp?\d*|rep[pw]\d+"),
            ("other", "a field of the file",
             r"rt|sporder|adj(inc|hsg|ust)|resmode|srntv?|svalv?|typehugq|sfn|n|dupcount|nop_f"),
            ("sensitive", "money",
             r"(h|f|p|pe)?incp|pernp|intp|oip|pap|retp|semp|ssip|ssp|wagp|povpip|hhincadj|pincp_.*"
             r"|conp|elep|fulp|gasp|insp|mhp|mrg[ptxi]|rntp|rntm|smp|smocp|smxp?|taxp?|taxamt|valp?"
             r"|watp|grntp|grpip|ocpip|ags|fs|hhinc|adjusted_income"),
            ("sensitive", "health or disability",
             r"d(ear|eye|out|phy|rat|ratx|rem|is|s|vet)|hicov|hins[1-7]|pr?ivcov|pubcov|hi[mp]e?"),
            ("quasi-identifier", "a small area", r"(mig|pow)?puma\d*|msa|cbsa"),
            ("quasi-identifier", "a place",
             r"st|region|division|(mig|pow)sp\d*|pobp\d*|waob|state|density|housing_type"),
            ("quasi-identifier", "an age", r"agep|agehoh"),
            ("quasi-identifier", "a part of a date", r"qtrbir"),
            ("quasi-identifier", "a year", r"yoep\d*|ybl|mv|decade|citwp\d*|yrblt|marhyp\d*"),
            ("quasi-identifier", "origin or language",
             r"rac\w*|hisp|anc\d?p?\d*|cit|nativity|lan[xp]\d*|eng|hhlp?|lngi"),
            ("quasi-identifier", "work or school",
             r"cow|esr|esp|jw\w+|drivesp|occp\w*|indp\w*|naicsp\w*|socp?\d*|wk[hlw]n?p?|wkwn"
             r"|wkexrel|workstat|wrk|nwa[bv]|nwl[ak]|nwre|sch[gl]?|schl|fod[12]p|sciengr?l?p?|mil"
             r"|mlp\w+|vps"
             r"|employed|wif|nwesr|nuniv_schg|edu"),
            ("quasi-identifier", "family",
             r"mar(h\w+)?|msp|relp|relshipp|sex|np[fp]?|noc|nrc?|fer|gc[lmr]|oc|rc|paoc|nop|hht2?"
             r"|fes|fparc|hu(gcl|paoc|pac|parc)|partner|psf|r18|r60|r65|sf[rn]|type|cplt|multg|ssmc"
             r"|htype"
             r"|own_rent|mig"),
            ("quasi-identifier", "the dwelling",
             r"acr|bdsp?|bld|bus|hfl|rmsp?|tel|ten|vacs|veh|kit|plm|toil|bath|rwat|sink|stov|refr"
             r"|access|laptop|compothx|smartphone|tablet|broadbnd|dialup|hispeed|satellite"
             r"|othsvcex"),
        ),
        flags=r"f\w{2,7}p|f\w{2,7}",
    ),
    Codebook(
        "DHS",
        "caseid hhid v000 v001 v002 v003 v005 v012 v013 v021 v023 v024 v025 v106 v130 v133 "
        "v190 v201 v501 mv012 mv001 mv005 hv000 hv001 hv002 hv005 hv009 hv024 hv025 hv104 "
        "hv105 hv270 bidx hvidx b4 b8",
        (
            ("identifier", "a person's number",
             r"m?caseid|hhid|hvidx|bidx|midx|(m|h)?v00[23]|v034"),
            ("other", "a statistical weight", r"[mh]?v005|d005|hv028|s?weight"),
            ("quasi-identifier", "a small area", r"[mh]?v001|[mh]?v021|h?v004|dhsclust"),
            ("other", "a field of the file",
             r"[mh]?v000|[mh]?v01[45789]|[mh]?v02[0236789]|[mh]?v03[0-35]|[mh]?v04[24]|hv01[5-8]"
             r"|hv03\w"
             r"|hv04[24]|hv80\w|[mh]?v022|[mh]?v023"),
            ("quasi-identifier", "a date", r"[mh]?v00[678]|[mh]?v016"),
            ("quasi-identifier", "a birth year", r"m?v010|b2(_\d+)?"),
            ("quasi-identifier", "a part of a date", r"m?v009|m?v011|b[13](_\d+)?|v211|hc3[012]"),
            ("quasi-identifier", "an age", r"m?v012|m?v013|hv105|hv220|v152|b8(_\d+)?|v730|v447a"),
            ("quasi-identifier", "a place",
             r"[mh]?v02[456]|m?v10[1-5]|m?v13[459]|m?v14[01]|hv040|v040"),
            ("quasi-identifier", "work or school",
             r"m?v10[67]|m?v133|m?v149|m?v155|m?v15[6789]|hv10[6789]|hv12\d|v70[1245]|m?v71\d|v72\d"
             r"|m?v73[12]"),
            ("sensitive", "private life",
             r"m?v130|d1\w+|m?v74[3-7]\w*|m?v85\w+|m?v82\w+|v633\w*|m?v53[16]|m?v52[5789]"
             r"|m?v76\w+"),
            ("quasi-identifier", "origin or language", r"m?v131|[mh]?v045\w*|hv04[56]\w*"),
            ("sensitive", "money", r"[mh]?v190\w*|[mh]?v191\w*|hv27[01]\w*|hv247|v74[0-2]|v170"),
            ("quasi-identifier", "the dwelling",
             r"m?v11[35679]|m?v12\d|v16[012]|hv20\d|hv21\d|hv22[1-6]|hv23\d\w*|hv24[0-6]\w*"
             r"|m?v153|hv221"),
            ("quasi-identifier", "sex", r"m?v151|hv104|hv219|b4(_\d+)?"),
            ("quasi-identifier", "family",
             r"m?v13[678]|m?v150|hv009|hv01[0-4]|hv101|hv10[23]|hv11\d|hv21[78]|m?v20\d|m?v21[0289]"
             r"|m?v22[04]|m?v50\w+|m?v51\w+|b[05679](_\d+)?|b1[01](_\d+)?|v218|bord(_\d+)?"),
            ("sensitive", "health",
             r"m?v21[3-7]|m?v22[5-9]\w*|m?v23\w+|m?v3\w+|m?v4\w+|m?v6\w+|m?v75\w+|m?v77\w+|m?v78\w+"
             r"|m?v8\w+|h\d+\w*|hw\d+\w*|h[abc]\d+\w*|m\d+\w*|hml\d+|s\d+\w*|hiv\d+|sh\d+\w*"
             r"|hv227"),
        ),
    ),
    Codebook(
        "EU-SILC",
        "db010 db020 db030 db040 db090 db100 rb010 rb020 rb030 rb050 rb080 rb090 rb170 rb210 hb010 "
        "hb020 hb030 hy010 hy020 hx040 hx060 pb010 pb020 pb030 pb040 pb140 pb150 pb190 pb220a "
        "pe040 ph010 pl030 pl031 pl051 py010n py010g py050n hy040n hy050n px030 rx010",
        (
            ("other", "a flag about another column", r"[dhpr][a-z]\d{3}\w*_(f|i|if|nu)"),
            ("identifier", "a person's number",
             r"[dhpr]b030|rb040|rb2[234]0|pb1[678]0|rb270|hb0[789]0|[hpr]x030|rb032|pb205"),
            ("other", "a statistical weight", r"db0[89]\d|rb06\d|rb050a?|pb0[4567]0|rl070"),
            ("other", "a field of the file",
             r"[dhpr]b010|db0[567]\d|db1[123]\d|rb1[01]0|rb2[0456]\d|hb1\d0|pb120|px010|hy025"
             r"|hx05\d"),
            ("quasi-identifier", "a place", r"[dhpr]b020|db040|db100|pb210|pb220\w?|rb28\d|rb29\d"),
            ("quasi-identifier", "a date", r"h[b]0[456]0|pb(09|10|11)0|rb1[2-6]0"),
            ("quasi-identifier", "a part of a date", r"rb070|pb130"),
            ("quasi-identifier", "a birth year", r"rb08\d|pb140"),
            ("quasi-identifier", "an age", r"rx0[12]0|px020|age"),
            ("quasi-identifier", "sex", r"rb090|pb150"),
            ("quasi-identifier", "family", r"pb190|pb200|hx0[46]0|hsize|rb031|rl0[1-6]0"),
            ("quasi-identifier", "work or school", r"pe\d{3}\w*|pl\d{3}\w*|rb170|rb210|rb211"),
            ("sensitive", "health", r"ph\d{3}\w*|pd\d{3}\w*|hd\d{3}\w*"),
            ("sensitive", "money",
             r"[hp]y\d{3}\w*|hx0[89]0|hx1\d0|hs\d{3}\w*|hh0[67]\d|hh03[01]|rx0[567]0|eqincome"
             r"|eqss"),
            ("quasi-identifier", "the dwelling", r"hh\d{3}\w*|hx070|hc\d{3}\w*"),
        ),
    ),
    Codebook(
        "NHANES",
        "seqn riagendr ridageyr ridreth1 ridreth3 dmdeduc2 dmdmartl dmdmartz indhhin2 indfmpir "
        "wtint2yr wtmec2yr sdmvpsu sdmvstra sddsrvyr ridstatr",
        (
            ("identifier", "a person's number", r"seqn"),
            ("other", "a statistical weight", r"wt\w+"),
            ("other", "a field of the file",
             r"sdmv\w+|sdd\w+|ridstatr|ridexmon|\w+(comm?t?|lc)|sial\w+"
             r"|mialang|fial\w+|\w+prox\w*|\w+intrp|aialang\w?"),
            ("quasi-identifier", "an age", r"rid\w*age\w*|ridex\w+"),
            ("quasi-identifier", "sex", r"riagendr"),
            ("quasi-identifier", "origin or language", r"ridreth\d|dmd(born|yrsu|citz)\w*"),
            ("quasi-identifier", "family", r"dmd\w+|ridexprg"),
            ("sensitive", "money", r"ind\w+"),
            ("sensitive", "health",
             r"(lb|bp|bm|mcq|diq|smq|alq|dpq|hiq|huq|rx|dr|ur|ox|au|cd|pax)\w+"),
        ),
    ),
    Codebook(
        "CDISC",
        "usubjid subjid siteid armcd actarm actarmcd brthdtc rfstdtc rfendtc dthdtc dthfl "
        "aeterm aedecod aesev lbtestcd lborres lbstresn vstestcd vsorres cmtrt cmdecod "
        "mhterm exdose studyid visitnum rficdtc",
        (
            ("identifier", "a person's number", r"u?subjid|invid|invnam|spdevid"),
            ("quasi-identifier", "a date", r"\w+dtc|\w+dtm?"),
            ("other", "a field of the file",
             r"studyid|domain|\w\w(seq|grpid|refid|spid|cat|scat)|visitnum|visit|epoch|\w+dy|ageu"),
            ("quasi-identifier", "an institution", r"siteid"),
            ("quasi-identifier", "a place", r"country|region\d*"),
            ("quasi-identifier", "an age", r"age|agegr\d*n?"),
            ("quasi-identifier", "origin or language", r"race\w?|ethnic"),
            ("sensitive", "health",
             r"(act)?arm(cd)?|dthfl|trt\w+|(ae|mh|ce|cm|ex|lb|vs|eg|qs|pr|fa|su|rs|tu|tr|pe)\w{2,8}"),
            ("other", "a flag about another column", r"\w+fl"),
        ),
    ),
    Codebook(
        "CPS or IPUMS",
        "pernum hhwt perwt statefip countyfip metarea relate marst hispan ftotinc incwage "
        "educd empstat occ1990 ind1990 gq afnlwgt ptotval wsalval pearnval agi fedtax a_age "
        "a_sex peridnum h_seq marsupwt prtage pesex ptdtrace gestfips",
        (
            ("identifier", "a person's number",
             r"serial|pernum|cpsidp?|peridnum|hrhhid2?|h_seq|sample"),
            ("other", "a statistical weight",
             r"(hh|per|asec|wt|slw|marsup)wt\w*|a?fnlwgt|repwtp?\d*|pw\w+gt"),
            ("other", "a field of the file", r"year|sample|gq|datanum|cluster|strata|q[a-z]{3,8}"),
            ("sensitive", "money",
             r"(inc|ftotinc|hhinc)\w*|\w+val|agi|fedtax|statetax|taxinc|fica|emcontrb|valueh"
             r"|rent\w*"
             r"|poverty|propt\w+|cost\w+"),
            ("sensitive", "health or disability", r"diff\w+|hcov\w+|hins\w+|disabwrk"),
            ("quasi-identifier", "a small area", r"countyfip|county\w*|metarea|met2013|puma|city"),
            ("quasi-identifier", "a place",
             r"statefip|stateicp|region|bpl\w*|gestfips|migr?ate\w*"),
            ("quasi-identifier", "an age", r"age|a_age|prtage"),
            ("quasi-identifier", "family",
             r"relate\w*|marst|a_maritl|pemaritl|nchild|famsize|sex|a_sex|pesex"),
            ("quasi-identifier", "work or school",
             r"educ\w*|empstat\w*|occ\w*|ind\d*\w*|classwkr\w*|uhrswork"),
            ("quasi-identifier", "origin or language",
             r"race\w*|hispan\w*|ptdtrace|citizen|yrimmig|language"),
        ),
    ),
)  # fmt: skip


RESTRICTED_AREAS = frozenset(
    {
        "036", "059", "063", "102", "203", "556", "692", "790", "821",
        "823", "830", "831", "878", "879", "884", "890", "893",
    }
)  # fmt: skip
"""Three-digit ZIP areas with 20,000 people or fewer, as in the guidance of the US Department of
Health and Human Services on de-identification (from the Census of 2000). The law asks for current
figures: give another list where there is one."""

_NAME = re.compile(r"(?:^|_)(?:zip(?:_?code)?\d?|postal(?:_?code)?|post_?code|plz)(?:$|_)")
_CODE = r"^\d{3,10}(?:-\d{4})?$"


def is_postal_name(name: str) -> bool:
    """Whether a column's name says that it holds postal codes.

    Examples
    --------
    >>> [is_postal_name(name) for name in ("zip", "ZipCode", "home_zip_5", "unzipped")]
    [True, True, True, False]
    """
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower()
    return _NAME.search(snake) is not None


def looks_postal(name: str, values: pa.Array) -> bool:
    """Whether a column holds ZIP-like codes: text of digits of one length, or the name says so.

    Examples
    --------
    >>> import pyarrow as pa
    >>> looks_postal("area", pa.array(["02138", "02139"])), looks_postal("age", pa.array([2138]))
    (True, False)
    """
    present = values.drop_null()
    if len(present) == 0:
        return False
    if pa.types.is_integer(present.type):
        return is_postal_name(name) and bool(pc.min(present).as_py() >= 0)
    if not (pa.types.is_string(present.type) or pa.types.is_large_string(present.type)):
        return False
    if not pc.all(pc.match_substring_regex(present, _CODE)).as_py():
        return False
    lengths = pc.unique(pc.utf8_length(present))
    return is_postal_name(name) or len(lengths) == 1


def postal_text(name: str, values: pa.Array, *, pad: bool = False) -> pa.Array:
    """ZIP-like codes as text of one length.

    Codes shorter than the others have lost leading zeros, mostly to a spreadsheet. With `pad` they
    get them back; otherwise the column is refused, since 2138 cut to three digits is another place.

    Examples
    --------
    >>> import pyarrow as pa
    >>> postal_text("zip", pa.array([2138, 10001]), pad=True).to_pylist()
    ['02138', '10001']
    """
    texts = values.cast(pa.string()).to_pylist()
    heads = [None if text is None else text.partition("-")[0] for text in texts]
    longest = max((len(head) for head in heads if head is not None), default=0)
    if longest == 4 and is_postal_name(name) and pa.types.is_integer(values.type):
        longest = 5  # every code lost its zero
    short = sum(head is not None and len(head) < longest for head in heads)
    if short and not pad:
        raise ColumnError(
            f"{short:,} distinct codes have fewer than {longest} digits: their leading zeros were "
            "lost, as spreadsheets do",
            where=f"column `{name}`",
            remedy=f"Read the column as text, or put the zeros back ({spell('pad_zip', True)}).",
        )
    padded = [
        text if text is None or head is None else head.zfill(longest) + text[len(head) :]
        for text, head in zip(texts, heads, strict=True)
    ]
    return pa.array(padded, pa.string())
