"""The strings that only the HTML page has, each as (English, Chinese)."""

from __future__ import annotations

PAGE: dict[str, tuple[str, str]] = {
    "page.contents": ("Contents", "目录"),
    "page.decision": ("Decision", "结论"),
    "page.scaling": ("Scaling", "扩展性"),
    "page.efficiency": ("Efficiency", "并行效率"),
    "page.memory": ("Memory", "内存"),
    "page.pareto": ("Time against money", "时间与费用"),
    "page.cost": ("Cost by tier", "各计费档的费用"),
    "page.breakdown": ("Where the time goes", "时间构成"),
    "page.bandwidth": ("Bandwidth", "带宽"),
    "page.matmul": ("Matrix products", "矩阵乘"),
    "page.more": ("More", "其他"),
    "page.failures": ("What failed and why", "失败及原因"),
    "page.environment": ("Environment", "环境"),
    "page.nothing": ("This study has nothing on this.", "本次研究没有这方面的数据。"),
    "page.nothing_failed": ("Nothing failed: every cell was measured.", "没有失败：所有单元均已测得。"),
    "page.first_rows": (
        "Shown: the first {shown} of {total} rows. All of them are in report.md, in the folder that this page is from.",
        "仅显示前 {shown} 行，共 {total} 行；全部见本页所在文件夹的 report.md。",
    ),
    "page.no_plotly": (
        "Figures are missing because plotly was not installed where this page was written: "
        "pip install 'cardscale[page]' there, then cardscale report again.",
        "生成本页的环境没有安装 plotly，因此没有图："
        "请在那里执行 pip install 'cardscale[page]'，再运行 cardscale report。",
    ),
    "page.no_script": (
        "Figures and switches need JavaScript; the tables are complete without it.",
        "图与切换需要 JavaScript；没有它，表格仍然完整。",
    ),
    "page.tier": ("tier", "计费档"),
    "page.all_tiers": ("all", "全部"),
    "page.currency": ("currency", "币种"),
    "page.all_currencies": ("all", "全部"),
    "page.end": ("range", "区间"),
    "page.both": ("low to high", "低至高"),
    "page.low": ("low", "低端"),
    "page.high": ("high", "高端"),
    "page.written": (
        "Written by cardscale {version}. The page is complete in itself: it loads nothing.",
        "由 cardscale {version} 生成。本页自成一体，不加载任何外部内容。",
    ),
}
